"""The plan's projected peak holds: the memory of a real worker grows by what the plan says, at any size.

A worker process is started as a run starts its own, and warmed up by a small run, so that its resident memory is that
of the interpreter and the imported modules. It runs one task at a time. Before each stage, the kernel's high-water mark
is reset, so that a stage's growth is that of its most demanding task.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec

from shuffle_tasks import STAGES, ShuffleConfig, ShuffleRun, run_shuffle
from shuffle_tasks.graph.cluster import local_client

Make = Callable[[int, int], NDArray[Any]]

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/clear_refs"), reason="needs the high-water mark of Linux"
)

LOG = logging.getLogger(__name__)
MIB = 2**20
ROW_FLOATS = 256
CHUNK_ROWS = 1024
TOLERANCE = 1.1
LOWEST = 0.3
"""Of the projection: much less, and memory would be wasted. At so small a memory, almost half of it is the fixed part,
for what the heap keeps between tasks: a fresh worker hardly uses it."""


def _status_bytes(name: str) -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith(f"{name}:"))


def resident_bytes() -> int:
    """Return the resident bytes of this process."""
    return _status_bytes("VmRSS")


def peak_bytes() -> int:
    """Return the most resident bytes of this process since the last reset."""
    return _status_bytes("VmHWM")


def reset_peak() -> None:
    """Reset this process's high-water mark to what is resident."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def _noise(start: int, rows: int) -> NDArray[np.float32]:
    """Rows that hardly compress, so that every encoded buffer is as large as it can be."""
    return np.random.default_rng(start).standard_normal((rows, ROW_FLOATS), np.float32)


def _repeated(start: int, rows: int) -> NDArray[np.float32]:
    """Rows that compress very well: each repeats its number."""
    return np.repeat(np.arange(start, start + rows, dtype=np.float32)[:, np.newaxis], ROW_FLOATS, axis=1)


def _numbers(start: int, rows: int) -> NDArray[np.int64]:
    """Rows of 8 bytes, fewer than their keys, order and hashes take."""
    return np.random.default_rng(start).integers(0, 2**40, rows)


def write_rows(path: str, rows: int, make: Make, chunk_rows: int = CHUNK_ROWS) -> None:
    """Write a dataset of `rows` rows."""
    row = make(0, 1)
    array = zarr.create_array(
        path, shape=(rows, *row.shape[1:]), chunks=(chunk_rows, *row.shape[1:]), dtype=row.dtype,
        compressors=BloscCodec(cname="zstd", clevel=1, shuffle="shuffle"),
    )  # fmt: skip
    for start in range(0, rows, 8 * chunk_rows):
        stop = min(rows, start + 8 * chunk_rows)
        array[start:stop] = make(start, stop - start)


@pytest.fixture
def warm_worker(tmp_path: Path) -> Iterator[Callable[[int], tuple[Any, int]]]:
    """Return a function that starts a worker for so many bytes, warms it up, and gives client and resident bytes."""
    with contextlib.ExitStack() as stack:

        def start(memory: int) -> tuple[Any, int]:
            client = stack.enter_context(local_client(1, memory))
            write_rows(f"{tmp_path}/warm.zarr", 64, _repeated, 8)
            small = {"source": f"{tmp_path}/warm.zarr", "target": f"{tmp_path}/warm-shuffled.zarr", "memory": memory}
            for levels in (1, 2):
                run_shuffle(ShuffleConfig(levels=levels, pile_rows=8, scatter_rows=8, overwrite=True, **small), client)
            return client, only(client.run(resident_bytes))

        yield start


def only(found: dict[str, int]) -> int:
    """Return what the only worker said."""
    (value,) = found.values()
    return value


def grown_by_stage(client: Any, before: int, config: ShuffleConfig) -> dict[str, tuple[int, int]]:
    """Return, for each stage that works on the worker, the measured and the projected growth of its memory in bytes."""
    found = {}
    with ShuffleRun(config, client=client) as run:
        for stage in STAGES:
            client.run(reset_peak)
            tasks = run.run_stage(stage).tasks
            if tasks and stage in ("scatter", "combine", "shuffle") and stage in run.plan.peaks:
                found[stage] = (only(client.run(peak_bytes)) - before, run.plan.peaks[stage])
    return found


def describe(found: dict[str, tuple[int, int]]) -> str:
    """Return measured and projected MiB, and their ratio, by stage."""
    return ", ".join(
        f"{stage}: grew by {grown / MIB:.1f} MiB, projected {projected / MIB:.1f} MiB, ratio {grown / projected:.2f}"
        for stage, (grown, projected) in found.items()
    )


@pytest.mark.parametrize(
    ("memory", "rows", "make", "sizes"),
    [
        pytest.param(96 * MIB, 4 * 96 * 1024, _noise, {}, id="4x-noise"),
        pytest.param(64 * MIB, 16 * 64 * 1024, _repeated, {}, id="16x-repeated"),
        pytest.param(64 * MIB, 4 * 64 * 1024, _noise, {"levels": 2}, id="4x-noise-two-levels"),
        pytest.param(192 * MIB, 2_500_000, _numbers, {"levels": 1}, id="8-byte-rows"),
        pytest.param(192 * MIB, 1_300_000, _numbers, {"levels": 0}, id="8-byte-rows-in-memory"),
        pytest.param(96 * MIB, 40 * 1024, _noise, {"levels": 0}, id="noise-in-memory"),
    ],
)
def test_peak_is_projected(
    warm_worker: Callable[[int], tuple[Any, int]], tmp_path: Path,
    memory: int, rows: int, make: Make, sizes: dict[str, int],
) -> None:  # fmt: skip
    """At any ratio of data to memory, no stage takes more than 1.1 times what the plan says, nor far less."""
    write_rows(f"{tmp_path}/in.zarr", rows, make, CHUNK_ROWS if make is not _numbers else 2**16)
    config = ShuffleConfig(source=f"{tmp_path}/in.zarr", target=f"{tmp_path}/out.zarr", memory=memory, **sizes)
    found = grown_by_stage(*warm_worker(memory), config)
    LOG.info(describe(found))
    assert {"shuffle"} | ({"scatter"} if sizes.get("levels", 1) else set()) <= found.keys()
    assert all(LOWEST * projected <= grown <= TOLERANCE * projected for grown, projected in found.values()), describe(
        found
    )
