"""The shuffle, and what it is compared with: each is one function from a contest and a target to an outcome.

All have the same number of worker processes, which run already, the same source in the page cache, and the same chunks
and codecs to write.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import zarr

from benchmarks.contest import SEED, Contender, Contest, Outcome
from benchmarks.workloads import MIB, arrays_of, create_like, slabs
from shuffle_tasks import Permutation, run_shuffle

SLAB_BYTES = 16 * MIB
"""Of a copy: several chunks at a time, or one if chunks are larger."""

ZARRS_PIPELINE = "zarrs.ZarrsCodecPipeline"

Slab = tuple[str, str, str, int, int]
"""Source, target, array, and rows [start, stop)."""


def _timed(work: Callable[[], Any]) -> Outcome:
    start = time.perf_counter()
    found = work()
    seconds = time.perf_counter() - start
    return Outcome(seconds, seconds, report=found if isinstance(found, dict) else {})


def shuffle(contest: Contest, target: str) -> Outcome:
    """Run our shuffle on the cluster that runs already."""
    return _timed(lambda: run_shuffle(contest.config(target), client=contest.client).to_dict())


def shuffle_with_cluster(contest: Contest, target: str) -> Outcome:
    """Run our shuffle, which starts its own cluster."""
    return _timed(lambda: run_shuffle(contest.config(target)).to_dict())


def copy(contest: Contest, target: str) -> Outcome:
    """Copy with zarr-python, processes taking slabs of whole chunks."""
    return _copy_with(contest, target, _copy_slab)


def copy_with_zarrs(contest: Contest, target: str) -> Outcome:
    """Copy with zarr-python and the Rust codecs of zarrs."""
    return _copy_with(contest, target, _copy_slab_with_zarrs)


def copy_with_tensorstore(contest: Contest, target: str) -> Outcome:
    """Copy with tensorstore, one thread a process."""
    return _copy_with(contest, target, _copy_slab_with_tensorstore)


def _copy_with(contest: Contest, target: str, copy_slab: Callable[[Slab], None]) -> Outcome:
    def work() -> None:
        create_like(contest.source, target)
        for _ in contest.pool.map(copy_slab, _all_slabs(contest.source, target)):
            pass

    return _timed(work)


def _all_slabs(source: str, target: str) -> Iterator[Slab]:
    for name, array in arrays_of(source).items():
        rows, chunk_rows = array.shape[0], array.chunks[0]
        chunks = max(1, SLAB_BYTES // max(1, array.nbytes // rows * chunk_rows))
        for start, stop in slabs(rows, chunks * chunk_rows):
            yield source, target, name, start, stop


@functools.lru_cache(maxsize=8)
def _open(path: str, name: str, mode: Any) -> zarr.Array[Any]:
    return zarr.open_array(path, path=name, mode=mode)


def _copy_slab(slab: Slab) -> None:
    source, target, name, start, stop = slab
    zarr.open_array(target, path=name, mode="r+")[start:stop] = _open(source, name, "r")[start:stop]


def _copy_slab_with_zarrs(slab: Slab) -> None:
    source, target, name, start, stop = slab
    with zarr.config.set({"codec_pipeline.path": ZARRS_PIPELINE}):
        read, write = zarr.open_array(source, path=name, mode="r"), zarr.open_array(target, path=name, mode="r+")
        write[start:stop] = read[start:stop]


def _copy_slab_with_tensorstore(slab: Slab) -> None:
    import tensorstore

    source, target, name, start, stop = slab
    context = tensorstore.Context({"data_copy_concurrency": {"limit": 1}, "file_io_concurrency": {"limit": 1}})
    read, write = (
        tensorstore.open(
            {
                "driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/{name}"},
                "store_data_equal_to_fill_value": True,
            },
            context=context,
        ).result()
        for path in (source, target)
    )  # fmt: skip
    write[start:stop].write(read[start:stop]).result()


def dask_copy(contest: Contest, target: str) -> Outcome:
    """Copy with dask.array.from_zarr(x).to_zarr(y) as it stands: a cluster and codecs by default."""
    import dask.array as da

    def work() -> None:
        with zarr.config.set({"array.write_empty_chunks": False}):
            stores = [
                da.from_zarr(array).to_zarr(target, component=name or None, compute=False)
                for name, array in arrays_of(contest.source).items()
            ]
        _wait_for(contest.plain_client, stores, None)

    return _timed(work)


def tuned_dask_copy(contest: Contest, target: str) -> Outcome:
    """Do the same on the cluster that the shuffle uses, with the codecs of the source and empty chunks written."""

    def work() -> None:
        create_like(contest.source, target)
        _wait_for(contest.client, _stores(contest, target, lambda x: x), None)

    return _timed(work)


def dask_permutation(contest: Contest, target: str) -> Outcome:
    """Write x[permutation] with Dask: a part of the rows, extrapolated linearly, though its graph grows faster."""
    rows = contest.part_rows()
    order = Permutation(rows, SEED).source_rows(0, rows)
    create_like(contest.source, target, rows)
    start = time.perf_counter()
    finished = _wait_for(contest.plain_client, _stores(contest, target, lambda x: x[:rows][order]), contest.limit)
    seconds = time.perf_counter() - start
    factor = contest.workload.rows / rows
    note = f"extrapolated linearly from {rows:,} rows" if finished else f"stopped after {contest.limit:.0f} s: at least"
    return Outcome(seconds * factor, seconds, note if factor > 1 or not finished else "")


def _stores(contest: Contest, target: str, select: Callable[[Any], Any]) -> list[Any]:
    """Return, not yet computed, the writing of the selected rows of every array into a target that has its metadata."""
    import dask.array as da

    found = []
    for name, array in arrays_of(contest.source).items():
        output = zarr.open_array(target, path=name, mode="r+")
        rows = select(da.from_zarr(array)).rechunk(output.chunks)
        found.append(rows.store(output, lock=False, compute=False))  # what to_zarr does with the array it has made
    return found


def _wait_for(client: Any, stores: list[Any], limit: float | None) -> bool:
    """Compute on a cluster, and tell whether it was done within the limit."""
    import dask

    future = client.compute(dask.delayed(_nothing)(*stores))
    try:
        future.result(timeout=limit)
    except TimeoutError:
        future.cancel()
        client.restart()
        return False
    return True


def _nothing(*stores: Any) -> None:
    """Wait for everything that is stored, and return no data."""


def row_reads(contest: Contest, target: str) -> Outcome:  # noqa: ARG001 - nothing is written
    """Read single rows in random order with zarr-python: a sample, by all processes at once, extrapolated linearly."""
    return _row_reads(contest, contest.workload.workers)


def single_row_reads(contest: Contest, target: str) -> Outcome:  # noqa: ARG001 - nothing is written
    """Do the same in one process, as a training loop would."""
    return _row_reads(contest, 1)


def _row_reads(contest: Contest, processes: int) -> Outcome:
    workload = contest.workload
    sample = np.random.default_rng(SEED).integers(0, workload.rows, contest.sample)
    parts = [(contest.source, part.tolist()) for part in np.array_split(sample, processes)]
    start = time.perf_counter()
    read = sum(contest.pool.map(_read_rows, parts))
    seconds = time.perf_counter() - start
    return Outcome(seconds * workload.rows / read, seconds, f"extrapolated linearly from {read} rows")


def _read_rows(job: tuple[str, list[int]]) -> int:
    path, rows = job
    names = list(arrays_of(path))
    for row, name in itertools.product(rows, names):
        _open(path, name, "r")[row]
    return len(rows)


CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender("ours", "pileshuffle, cluster running", shuffle, "shuffled"),
        Contender("copy", "parallel copy, zarr-python", copy, "copy"),
        Contender("dask copy", "dask.array.from_zarr(x).to_zarr(y)", dask_copy, "copy"),
        Contender("tuned dask copy", "the same on our cluster, same codecs", tuned_dask_copy, "copy"),
        Contender("ours with cluster", "pileshuffle, cluster start included", shuffle_with_cluster, "shuffled"),
        Contender("dask permutation", "x[permutation] in Dask, written", dask_permutation, "part"),
        Contender("row reads", "random single-row reads, zarr-python", row_reads, "nothing"),
        Contender("row reads, one process", "the same in one process", single_row_reads, "nothing"),
        Contender("zarrs copy", "parallel copy, zarr-python with zarrs", copy_with_zarrs, "copy", needs="zarrs"),
        Contender("tensorstore copy", "parallel copy, tensorstore", copy_with_tensorstore, "copy", needs="tensorstore"),
    )
}


def missing(contender: Contender) -> str | None:
    """Return why a contender cannot run here, or None."""
    if contender.needs is None or find_spec(contender.needs):
        return None
    return f"{contender.needs} is not installed"
