"""What is at the target's place, beside it and in the work directory: before, while and after a run writes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from interruptions import SIZES, InterruptionError, N, assert_result, request_of, run_with, snapshot
from oracle import stored_values

from shuffle_tasks import (
    STAGES,
    RequestError,
    ShuffleConfig,
    ShuffleRun,
    is_complete,
    plan_shuffle,
    read_provenance,
    run_shuffle,
    verify,
)
from shuffle_tasks.provenance import read_records


@pytest.fixture
def config(tmp_path: Path) -> ShuffleConfig:
    """Return a request of two levels."""
    return request_of(tmp_path)


def test_a_finished_request_is_already_complete(config: ShuffleConfig) -> None:
    """The same request again does nothing, and reports the run that did it."""
    assert not is_complete(config)
    first = run_shuffle(config)
    assert is_complete(config)
    before = snapshot(config.target)
    for again in (config, config.model_copy(update={"memory": 2**30, "pile_rows": None, "levels": None})):
        report = run_shuffle(again)
        assert (report.status, report.run_id, report.digests) == ("already complete", first.run_id, first.digests)
        assert plan_shuffle(again).n == N
    assert snapshot(config.target) == before
    with pytest.raises(RequestError, match="exists"):
        run_shuffle(config.model_copy(update={"seed": 8}))
    assert snapshot(config.target) == before


def test_overwrite_replaces_when_the_new_one_is_complete(config: ShuffleConfig, tmp_path: Path) -> None:
    """The old target can be read until the new one is committed; then it is gone."""
    old = run_shuffle(config)
    new = config.model_copy(update={"seed": 8, "overwrite": True})
    with ShuffleRun(new) as run:
        for stage in STAGES:
            assert_result(config)
            assert verify(config.target).ok
            assert read_provenance(config.target)["run_id"] == old.run_id
            run.run_stage(stage)
    assert_result(new)
    assert sorted(os.listdir(tmp_path)) == ["in.zarr", "out.zarr"]
    assert run_shuffle(new).run_id != run.run_id  # overwrite means: do it again
    assert sorted(os.listdir(tmp_path)) == ["in.zarr", "out.zarr"]


def test_a_failed_overwrite_leaves_the_old_target(config: ShuffleConfig, tmp_path: Path) -> None:
    """The old target stays as it was when its replacement fails, and the replacement can be resumed."""
    run_shuffle(config)
    before = snapshot(config.target)
    new = config.model_copy(update={"seed": 8, "overwrite": True})
    with pytest.raises(InterruptionError):
        run_with(new, stop_at=("shuffle", 2), key="first")
    assert snapshot(config.target) == before
    assert is_complete(config)
    report = run_with(new, key="second")
    assert report["stages"]["shuffle"]["found_done"] == 2
    assert_result(new)
    assert [record["labels"]["key"] for record in read_records(config.target).values()] == ["first", "second"]
    assert sorted(os.listdir(tmp_path)) == ["in.zarr", "out.zarr"]


def test_overwrite_discards_an_unfinished_run(config: ShuffleConfig, tmp_path: Path) -> None:
    """A half-written target of another request is replaced, and its work removed."""
    with pytest.raises(InterruptionError):
        run_with(config, stop_at=("shuffle", 2))
    new = config.model_copy(update={"seed": 8})
    with pytest.raises(RequestError, match="unfinished"):
        run_shuffle(new)
    run_shuffle(new.model_copy(update={"overwrite": True}))
    assert_result(new)
    assert sorted(os.listdir(tmp_path)) == ["in.zarr", "out.zarr"]


@pytest.mark.parametrize("kind", ["a file", "a folder", "a link"])
def test_overwrite_replaces_anything(config: ShuffleConfig, tmp_path: Path, kind: str) -> None:
    """What is at the target's place may be a file, a directory or a link, whose own target is left alone."""
    if kind == "a file":
        (tmp_path / "out.zarr").write_text("old")
    else:
        (tmp_path / "old").mkdir()
        (tmp_path / "old/notes").write_text("old")
        (tmp_path / "old").rename(tmp_path / "out.zarr") if kind == "a folder" else (tmp_path / "out.zarr").symlink_to(
            "old"
        )
    run_shuffle(config.model_copy(update={"overwrite": True}))
    assert_result(config)
    assert (tmp_path / "old/notes").exists() is (kind == "a link")


@pytest.mark.parametrize("sizes", [SIZES, {"levels": 1, "pile_rows": 50, "scatter_rows": 60}, {}])
def test_kept_piles_can_be_read(config: ShuffleConfig, sizes: dict[str, Any]) -> None:
    """The piles stay where the report says, with ascending keys and the rows of each pile."""
    plain = {"pile_rows": None, "scatter_rows": None, "levels": None} | sizes
    report = run_shuffle(config.model_copy(update={"keep_piles": True, **plain}))
    assert report.piles is not None
    piles = zarr.open_group(report.piles, mode="r")
    count, target, at = np.asarray(piles["count"][...]), stored_values(config.target), 0
    for pile in range(count.shape[1]):
        segments = [(span, count[span, pile]) for span in range(len(count))]
        keys = np.concatenate([piles["key"][span, pile, :rows] for span, rows in segments])
        order = np.argsort(keys, kind="stable")
        for name in ("x", "y"):
            rows = np.concatenate([piles[name][span, pile, :rows] for span, rows in segments])
            np.testing.assert_array_equal(rows[order], target[name][at : at + len(order)])
        at += len(order)
    assert at == N
    assert read_provenance(config.target)["piles"] == report.piles


def test_a_work_directory_of_the_users(config: ShuffleConfig, tmp_path: Path) -> None:
    """Piles and records go where the request says; what else is there is left alone."""
    work = tmp_path / "scratch/deep"
    with pytest.raises(InterruptionError):
        run_with(config.model_copy(update={"work_dir": str(work)}), stop_at=("shuffle", 1))
    assert len(os.listdir(work)) == 1
    assert not Path(f"{config.target}.work").exists()
    (work / "precious").write_text("mine")
    run_with(config.model_copy(update={"work_dir": str(work)}))
    assert os.listdir(work) == ["precious"]
    assert_result(config)


def test_rows_in_memory_leave_nothing_behind(config: ShuffleConfig, tmp_path: Path) -> None:
    """A run without piles removes its work directory too."""
    run_shuffle(config.model_copy(update={"pile_rows": None, "scatter_rows": None, "levels": 0}))
    assert_result(config)
    assert sorted(os.listdir(tmp_path)) == ["in.zarr", "out.zarr"]
    assert not list(tmp_path.rglob("*.partial"))
