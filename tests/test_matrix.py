"""One request has one result: whatever the workers, the memory, the levels, and the chunks of the source."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from oracle import assert_rows_in_order, row_order
from strategies import synchronous

from shuffle_tasks import ShuffleConfig, ShuffleReport, run_shuffle
from shuffle_tasks.planning import levels, memory

N = 2000
SEED = 20260
MEMORY = (140_000, 190_000, 450_000)
CHUNKINGS = ((200, 400), (97, 311), (120, 64))
WORKERS = (0, 1, 2, 3)


@pytest.fixture
def small_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the planner treat kilobytes as it treats gigabytes: no fixed cost, and few segments are already many."""
    monkeypatch.setattr(memory, "FIXED_BYTES", 1000)
    monkeypatch.setattr(levels, "MANY_SEGMENTS", 20)
    monkeypatch.setattr(levels, "DIRECT_BYTES", 0)


def sample_rows() -> dict[str, np.ndarray]:
    """Return images of noise and labels."""
    random = np.random.Generator(np.random.Philox(1))
    return {"images": random.normal(size=(N, 4, 4)).astype("f4"), "labels": random.integers(0, 10, N, dtype="i2")}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], Path]:
    """Write the same rows in three chunkings."""
    folder, found = tmp_path_factory.mktemp("sources"), {}
    for number, chunks in enumerate(CHUNKINGS):
        found[chunks] = folder / f"{number}.zarr"
        root = zarr.create_group(found[chunks])
        for rows, (name, values) in zip(chunks, sample_rows().items(), strict=True):
            root.create_array(
                name, data=values, chunks=(rows, *values.shape[1:]), dimension_names=["row", *"yx"][: values.ndim]
            )
    return found


def run(source: Path, target: Path, client: Any, budget: int, **fields: Any) -> ShuffleReport:
    """Shuffle with so many bytes for each worker, in this thread if there is no client."""
    slots = len(client.scheduler_info()["workers"]) if client else 1
    config = ShuffleConfig(
        source=source,
        target=target,
        seed=SEED,
        memory=budget * slots,
        chunk_rows=100,
        **fields,
        scheduler=None if client else "synchronous",
    )
    return run_shuffle(config, client=client)


def chunk_bytes(target: Path) -> str:
    """Return the SHA-256 of all stored chunks, names included."""
    found = hashlib.sha256()
    for path in sorted(p for p in target.rglob("*") if p.is_file() and "/c/" in str(p)):
        found.update(str(path.relative_to(target)).encode() + path.read_bytes())
    return found.hexdigest()


@pytest.mark.usefixtures("small_scale")
def test_workers_memory_and_source_chunks_change_nothing(
    sources: dict[tuple[int, int], Path], tmp_path: Path, client_of: Callable[[int], Any]
) -> None:
    """Three digests and all stored bytes of the target agree over workers, memory and source chunks."""
    results, plans = set(), {}
    for workers in WORKERS:
        for chunks, source in sources.items():
            for budget in MEMORY:
                target = tmp_path / f"{workers}-{chunks[0]}-{budget}.zarr"
                report = run(source, target, client_of(workers) if workers else None, budget)
                results.add((*report.digests.values(), chunk_bytes(target)))
                plans[workers, chunks, budget] = tuple(report.plan[k] for k in ("scatter_tasks", "piles", "levels"))
    assert len(results) == 1
    assert_rows_in_order(target, sample_rows(), row_order(N, SEED))
    for workers in WORKERS:
        for chunks in CHUNKINGS:
            shapes = [plans[workers, chunks, budget] for budget in MEMORY]
            assert len(set(shapes)) == 3, shapes
    for column, least in ((0, 5), (1, 4), (2, 3)):
        assert len({shape[column] for shape in plans.values()}) >= least, plans


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_levels_change_nothing(sources: dict[tuple[int, int], Path], tmp_path: Path, depth: int) -> None:
    """In memory, and over one, two or three levels: the same digests and the same stored bytes."""
    source = sources[CHUNKINGS[0]]
    in_memory = run(source, tmp_path / "in-memory.zarr", None, 2**28, levels=0)
    sizes = {"pile_rows": 300, "scatter_rows": 700} if depth else {}
    levelled = run(source, tmp_path / "levelled.zarr", None, 2**28, levels=depth, **sizes)
    assert levelled.plan["levels"] == depth
    assert levelled.digests == in_memory.digests
    assert chunk_bytes(tmp_path / "levelled.zarr") == chunk_bytes(tmp_path / "in-memory.zarr")


def test_a_seed_and_an_epoch_change_the_order_alone(sources: dict[tuple[int, int], Path], tmp_path: Path) -> None:
    """Another seed or epoch has the same content, and another binding and order."""
    source = sources[CHUNKINGS[0]]
    reports = [
        run_shuffle(synchronous(source, tmp_path / f"{seed}-{epoch}.zarr", seed=seed, epoch=epoch))
        for seed, epoch in ((1, 0), (2, 0), (1, 1))
    ]
    assert len({report.digests["content"] for report in reports}) == 1
    assert len({report.digests["binding"] for report in reports}) == 3
    assert len({report.digests["order"] for report in reports}) == 3


def test_the_default_local_cluster(sources: dict[tuple[int, int], Path], tmp_path: Path) -> None:
    """Without a scheduler or a client, the run starts its own workers and closes them."""
    source = sources[CHUNKINGS[0]]
    config = ShuffleConfig(
        source=source,
        target=tmp_path / "local.zarr",
        seed=SEED,
        workers=2,
        memory="200MiB",
        chunk_rows=100,
        levels=1,
        pile_rows=1000,
        scatter_rows=1000,
    )
    local = run_shuffle(config)
    assert local.plan["slots"] == 2
    assert local.digests == run(source, tmp_path / "sync.zarr", None, 2**28).digests


def test_the_address_of_a_scheduler(
    sources: dict[tuple[int, int], Path], tmp_path: Path, client_of: Callable[[int], Any]
) -> None:
    """A run connects to any scheduler by its address, uses its workers, and leaves it running."""
    source, client = sources[CHUNKINGS[0]], client_of(2)
    config = ShuffleConfig(
        source=source,
        target=tmp_path / "remote.zarr",
        seed=SEED,
        scheduler=client.scheduler.address,
        memory="200MiB",
        chunk_rows=100,
        levels=1,
        pile_rows=1000,
    )
    assert run_shuffle(config).digests == run(source, tmp_path / "sync.zarr", None, 2**28).digests
    assert client.submit(int, 7).result() == 7
