"""Interrupted, repeated and concurrent work: the result is the same, and what was done is not done again."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from interruptions import SIZES, InterruptionError, assert_result, request_of, run_with, snapshot, write_source
from oracle import assert_rows_in_order, row_order
from strategies import synchronous

from shuffle_tasks import STAGES, RequestError, RunError, ShuffleConfig, ShuffleRun, read_provenance, run_shuffle
from shuffle_tasks.copying import copy_array
from shuffle_tasks.provenance import read_records
from shuffle_tasks.scatter import rescatter_pile, scatter_span
from shuffle_tasks.shuffle import shuffle_in_memory, shuffle_pile
from shuffle_tasks.storage import lease
from shuffle_tasks.storage.records import read_record, stage_name
from shuffle_tasks.storage.spec import TaskRef
from shuffle_tasks.verify import read_back_pile


@pytest.fixture
def config(tmp_path: Path) -> ShuffleConfig:
    """Return a request of two levels."""
    return request_of(tmp_path)


@pytest.mark.parametrize(
    ("levels", "stop_at"),
    [
        (2, ("scatter", 1)),
        (2, ("scatter", 4)),
        (1, ("combine", 2)),
        (2, ("shuffle", 1)),
        (1, ("shuffle", 4)),
        (1, ("verify", 2)),
    ],
)
def test_an_interrupted_run_goes_on(
    config: ShuffleConfig, tmp_path: Path, levels: int, stop_at: tuple[str, int]
) -> None:
    """The second attempt finds the finished tasks done, and gives the digests of an uninterrupted run."""
    config = config.model_copy(update={"levels": levels})
    whole = run_shuffle(config.model_copy(update={"target": str(tmp_path / "whole.zarr")}))
    config = config.model_copy(update={"verify_readback": True})
    with pytest.raises(InterruptionError):
        run_with(config, stop_at=stop_at, key="first")
    report = run_with(config, key="second")
    assert report["digests"] == whole.digests
    stage, done = stop_at
    found = {name: stats["found_done"] for name, stats in report["stages"].items()}
    assert found[stage] == done
    assert all(found[name] == 0 for name in STAGES[STAGES.index(stage) + 1 :])
    assert any("found done" in note for note in report["notes"])
    assert_result(config)
    records = read_records(config.target)
    assert [record["labels"]["key"] for record in records.values()] == ["first", "second"]
    assert [record["status"] for record in records.values()] == ["failed", "complete"]
    assert "InterruptionError: after task" in next(iter(records.values()))["error"]
    assert read_provenance(config.target)["run_id"] == report["run_id"]
    assert sorted(os.listdir(tmp_path)) == ["in.zarr", "out.zarr", "whole.zarr"]


@pytest.fixture
def no_holder_lives(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function from whose call on every earlier attempt counts as dead."""
    return lambda: monkeypatch.setattr(lease, "holder_lives", lambda *_: False)


def test_a_killed_attempt_is_told_apart(config: ShuffleConfig, no_holder_lives: Callable[[], None]) -> None:
    """An attempt that left no outcome is recorded as killed, and one stopped by the user as cancelled."""
    killed = ShuffleRun(config).__enter__()
    killed.run_stage("plan")
    no_holder_lives()
    with pytest.raises(KeyboardInterrupt), ShuffleRun(config):
        raise KeyboardInterrupt
    run_shuffle(config)
    assert sorted(r["status"] for r in read_records(config.target).values()) == ["cancelled", "complete", "killed"]
    assert_result(config)


@pytest.mark.parametrize("sizes", [{}, SIZES, {"pile_rows": 100, "levels": 1}])
@pytest.mark.parametrize("memory", ["26MiB", "40MiB", "2GiB"])
def test_any_memory_that_was_enough_is_enough_to_resume(tmp_path: Path, memory: str, sizes: dict[str, Any]) -> None:
    """A run that was accepted with some memory is accepted again with the same memory."""
    write_source(tmp_path / "in.zarr")
    config = synchronous(tmp_path / "in.zarr", tmp_path / "out.zarr", row_dim="row", memory=memory, **sizes)
    with pytest.raises(InterruptionError):
        run_with(config, stop_at=("shuffle", 1))
    run_with(config)
    assert_result(config)


def test_a_resume_adopts_the_stored_plan(config: ShuffleConfig) -> None:
    """Other memory or sizes at the second attempt do not change the plan that was begun."""
    with pytest.raises(InterruptionError):
        run_with(config, stop_at=("scatter", 2))
    report = run_with(config.model_copy(update={"pile_rows": 100, "levels": 1, "memory": 2**30}))
    assert (report["plan"]["pile_rows"], report["plan"]["levels"]) == (50, 2)
    assert_result(config)


def test_a_resume_with_too_little_memory_names_what_it_needs(tmp_path: Path) -> None:
    """A stored plan that does not fit any more is refused with the memory it needs."""
    zarr.create_array(tmp_path / "in.zarr", data=np.zeros((4000, 4096), "u1"), chunks=(100, 4096))
    config = synchronous(tmp_path / "in.zarr", tmp_path / "out.zarr", memory="200MiB", levels=1, pile_rows=4000)
    with pytest.raises(InterruptionError):
        run_with(config, stop_at=("scatter", 1))
    with pytest.raises(RequestError, match=r"needs .*iB a worker, and a worker has 30.0 MiB"):
        run_shuffle(config.model_copy(update={"memory": 30 * 2**20}))
    assert run_shuffle(config).status == "complete"


def task_refs(run: ShuffleRun) -> list[tuple[Callable[[TaskRef], Any], TaskRef]]:
    """Return every task of a run with its function."""
    spec, found = run.spec, []
    for depth, level in enumerate(spec.plan.levels):
        name = stage_name(depth, spec.plan)
        function = scatter_span if depth == 0 else rescatter_pile
        found += [(function, TaskRef(spec.work, spec.plan_id, name, i, depth)) for i in range(level.tasks)]
    last = shuffle_pile if spec.plan.levels else shuffle_in_memory
    for stage, function, tasks in (
        ("shuffle", last, spec.plan.piles),
        ("copy", copy_array, len(spec.copies)),
        ("readback", read_back_pile, spec.plan.piles),
    ):
        found += [(function, TaskRef(spec.work, spec.plan_id, stage, i)) for i in range(tasks)]
    return found


@pytest.mark.parametrize("levels", [0, 1, 2])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_repeated_task_changes_no_byte(config: ShuffleConfig, levels: int, threads: int) -> None:
    """Any task run again, or several times at once, leaves all bytes as they are, and the same record but for times."""
    sizes = {} if levels else {"pile_rows": None, "scatter_rows": None}
    with ShuffleRun(config.model_copy(update={"levels": levels, **sizes})) as run:
        for stage in STAGES[: STAGES.index("verify")]:
            run.run_stage(stage)
        before, refs = (snapshot(run.spec.work), snapshot(run.spec.target_root)), task_refs(run)
        records = [read_record(run.spec, ref.stage, ref.index) for _, ref in refs]
        for function, ref in refs:
            run_at_once(function, ref, threads)
        assert (snapshot(run.spec.work), snapshot(run.spec.target_root)) == before
        for (_, ref), record in zip(refs, records, strict=True):
            if record is not None:
                assert timeless(read_record(run.spec, ref.stage, ref.index)) == timeless(record)
        for stage in STAGES[STAGES.index("verify") :]:
            run.run_stage(stage)
    assert_result(config)


def timeless(record: Any) -> dict[str, Any]:
    """Return a record without what two runs of one task may differ in."""
    return {name: value for name, value in record.items() if name not in {"seconds", "parts", "run_id", "pid", "host"}}


def run_at_once(function: Callable[[TaskRef], Any], ref: TaskRef, threads: int) -> None:
    """Run one task in so many threads at the same time."""
    barrier, errors = threading.Barrier(threads), []

    def work() -> None:
        barrier.wait()
        try:
            function(ref)
        except Exception as error:  # noqa: BLE001 - told below
            errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors


def test_a_lost_target_is_written_again(config: ShuffleConfig) -> None:
    """When the unfinished target was removed, its chunks are written again from the piles."""
    with pytest.raises(InterruptionError):
        run_with(config, stop_at=("shuffle", 4))
    shutil.rmtree(config.target)
    report = run_with(config)
    assert report["stages"]["scatter"]["found_done"] > 0
    assert report["stages"]["shuffle"]["found_done"] == 0
    assert_result(config)


def test_a_changed_source_is_another_request(config: ShuffleConfig) -> None:
    """When the source's metadata changed, the unfinished run is not taken up again."""
    with pytest.raises(InterruptionError):
        run_with(config, stop_at=("scatter", 2))
    zarr.open_group(config.source, mode="r+").attrs["changed"] = True
    with pytest.raises(RequestError, match="unfinished run of another request"):
        run_shuffle(config)


def test_a_bare_array_keeps_its_attempts(tmp_path: Path) -> None:
    """A bare array carries all attempts in its attributes."""
    values = np.arange(90)
    zarr.create_array(tmp_path / "in.zarr", data=values, chunks=(10,))
    config = synchronous(tmp_path / "in.zarr", tmp_path / "out.zarr", levels=1, pile_rows=30)
    with pytest.raises(InterruptionError):
        run_with(config, stop_at=("shuffle", 1))
    run_with(config)
    assert [record["status"] for record in read_records(config.target).values()] == ["failed", "complete"]
    assert_rows_in_order(config.target, {"": values}, row_order(90, 0))


@pytest.mark.parametrize("after", STAGES[: STAGES.index("commit")])
def test_a_stale_attempt_harms_nothing(config: ShuffleConfig, after: str, no_holder_lives: Callable[[], None]) -> None:
    """A second attempt is refused while the first lives; one that was taken for dead fails when it goes on."""
    stale = ShuffleRun(config).__enter__()
    for stage in STAGES[: STAGES.index(after) + 1]:
        stale.run_stage(stage)
    with pytest.raises(RequestError, match=f"another run is working.*{stale.run_id}"):
        run_shuffle(config)
    no_holder_lives()
    run_shuffle(config)
    before = snapshot(config.target)
    with pytest.raises(RunError):
        finish_late(stale, after)
    assert snapshot(config.target) == before
    left = [path for path in Path(f"{config.target}.work").rglob("*") if path.is_file()]
    assert {path.parent.name for path in left} <= {"runs"}  # the record of the stale attempt may stay, its work may not


def finish_late(run: ShuffleRun, after: str) -> None:
    """Run the stages behind one, and let an error end the run."""
    with contextlib.ExitStack() as stack:
        stack.push(run.__exit__)
        for stage in STAGES[STAGES.index(after) + 1 :]:
            run.run_stage(stage)
