"""The workloads: what is shuffled, how it is stored, and how much memory there is.

A   2^21 rows of 256 float32, noise that compresses a little (2 GiB)
B   2^18 rows of 4608 int16 (9 kB), 5-6 x compressible (2.3 GiB)
C   2^26 rows of one int64 (512 MiB): as many rows as possible for their bytes
D   2^20 images of 28 x 28 uint8 with their labels (0.8 GiB)

Each chunk of data is a pure function of (workload, variable, chunk), so that chunks are made in parallel and a source
is the same on every machine. Sources are kept in a directory and used again.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec

DATA_VERSION = 1
MIB = 2**20

Rows = NDArray[Any]
Make = Callable[[np.random.Generator, int], Rows]


@dataclass(frozen=True, slots=True)
class Variable:
    """One array of a workload: its name ("" for a bare array), rows, and rows a chunk."""

    name: str
    dtype: str
    row_shape: tuple[int, ...]
    chunk_rows: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one decoded row."""
        return np.dtype(self.dtype).itemsize * math.prod(self.row_shape)


@dataclass(frozen=True, slots=True)
class Workload:
    """What is shuffled, and with how much.

    Attributes
    ----------
    name : str
        A, B, C or D.
    text : str
        In words.
    rows : int
        Rows.
    variables : tuple of Variable
        Arrays.
    memory : int
        Bytes of data buffers of all workers together.
    workers : int
        Worker processes.
    """

    name: str
    text: str
    rows: int
    variables: tuple[Variable, ...]
    memory: int = 512 * MIB
    workers: int = 2

    @property
    def row_bytes(self) -> int:
        """Bytes of one decoded row over all variables."""
        return sum(variable.row_bytes for variable in self.variables)

    @property
    def bytes(self) -> int:
        """Decoded bytes."""
        return self.rows * self.row_bytes


WORKLOADS: Mapping[str, Workload] = {
    w.name: w
    for w in (
        Workload("A", "256 float32 of noise a row", 2**21, (Variable("", "<f4", (256,), 4096),)),
        Workload("B", "4608 int16 a row, 5-6 x compressible", 2**18, (Variable("", "<i2", (4608,), 4096),)),
        Workload("C", "one int64 a row", 2**26, (Variable("", "<i8", (), 2**17),)),
        Workload(
            "D", "images of 28 x 28 uint8 and labels", 2**20,
            (Variable("image", "|u1", (28, 28), 4096), Variable("label", "|u1", (), 4096)),
        ),
    )
}  # fmt: skip


def scaled(name: str, scale: float = 1.0, memory: int | None = None, workers: int | None = None) -> Workload:
    """Return a workload with `scale` times its rows; memory and workers stay, unless they are given."""
    workload = WORKLOADS[name]
    rows = max(1, round(workload.rows * scale))
    return replace(workload, rows=rows, memory=memory or workload.memory, workers=workers or workload.workers)


def _rounded_noise(random: np.random.Generator, rows: int) -> Rows:
    return np.rint(random.standard_normal((rows, 256), np.float32) * 64) / 64


def _small_counts(random: np.random.Generator, rows: int) -> Rows:
    return np.rint(random.standard_normal((rows, 4608), np.float32) * 1.5 + 100)


def _numbers(random: np.random.Generator, rows: int) -> Rows:
    return random.integers(0, 2**40, rows)


def _sparse_images(random: np.random.Generator, rows: int) -> Rows:
    shape = (rows, 28, 28)
    return random.integers(0, 256, shape, np.uint8) * (random.random(shape, np.float32) < 0.2)


def _labels(random: np.random.Generator, rows: int) -> Rows:
    return random.integers(0, 10, rows)


_MAKERS: Mapping[tuple[str, str], Make] = {
    ("A", ""): _rounded_noise,
    ("B", ""): _small_counts,
    ("C", ""): _numbers,
    ("D", "image"): _sparse_images,
    ("D", "label"): _labels,
}


def make_chunk(workload: Workload, number: int, chunk: int) -> Rows:
    """Return the rows of one chunk of the variable `number`."""
    variable = workload.variables[number]
    random = np.random.default_rng([DATA_VERSION, ord(workload.name), number, chunk])
    return _MAKERS[workload.name, variable.name](random, variable.chunk_rows).astype(variable.dtype)


def source_path(workload: Workload, folder: str) -> str:
    """Return where the source of a workload is kept."""
    return os.path.join(folder, f"{workload.name}-{workload.rows}-v{DATA_VERSION}.zarr")


def make_source(workload: Workload, folder: str) -> str:
    """Return the path of a workload's source, which is made unless it is there."""
    path, partial = source_path(workload, folder), source_path(workload, folder) + ".partial"
    if os.path.isdir(path):
        return path
    os.makedirs(folder, exist_ok=True)
    shutil.rmtree(partial, ignore_errors=True)
    create_arrays(workload, partial)
    jobs = [
        (workload, partial, number, chunk)
        for number, variable in enumerate(workload.variables)
        for chunk in range(-(-workload.rows // variable.chunk_rows))
    ]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=get_context("spawn")) as pool:
        for _ in pool.map(_write_chunk, jobs, chunksize=8):
            pass
    os.rename(partial, path)
    return path


def create_arrays(workload: Workload, path: str) -> None:
    """Write the metadata of a source: Blosc-zstd level 1 with shuffle, as most float data is stored."""
    names = [variable.name for variable in workload.variables]
    group = None if names == [""] else zarr.create_group(path)
    for variable in workload.variables:
        zarr.create_array(
            path if group is None else group.store,
            name=variable.name or None, shape=(workload.rows, *variable.row_shape), dtype=variable.dtype,
            chunks=(variable.chunk_rows, *variable.row_shape),
            compressors=BloscCodec(cname="zstd", clevel=1, shuffle="shuffle"),
        )  # fmt: skip


def _write_chunk(job: tuple[Workload, str, int, int]) -> None:
    workload, path, number, chunk = job
    variable = workload.variables[number]
    array = zarr.open_array(path, path=variable.name, mode="r+")
    start = chunk * variable.chunk_rows
    stop = min(start + variable.chunk_rows, workload.rows)
    array[start:stop] = make_chunk(workload, number, chunk)[: stop - start]


def arrays_of(path: str) -> dict[str, zarr.Array[Any]]:
    """Return the arrays of a dataset by name, "" for a bare array, without its provenance."""
    root = zarr.open(path, mode="r")
    return {"": root} if isinstance(root, zarr.Array) else dict(root.arrays())


def create_like(source: str, target: str, rows: int | None = None) -> None:
    """Write the metadata of a target: arrays, chunks and codecs of a source, and perhaps another number of rows."""
    if "" not in arrays_of(source):
        zarr.create_group(target)
    for name, array in arrays_of(source).items():
        zarr.create_array(
            target, name=name or None, shape=(rows or array.shape[0], *array.shape[1:]), chunks=array.chunks,
            dtype=array.dtype, compressors=array.compressors, filters=array.filters, fill_value=array.fill_value,
        )  # fmt: skip


def slabs(rows: int, slab_rows: int) -> Iterator[tuple[int, int]]:
    """Yield [start, stop) of slabs of `slab_rows` rows."""
    for start in range(0, rows, slab_rows):
        yield start, min(start + slab_rows, rows)


def warm_page_cache(path: str) -> int:
    """Read every file of a dataset once, so that all contenders read it from the page cache; return the bytes."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with open(os.path.join(folder, name), "rb", buffering=0) as file:
                while data := file.read(16 * MIB):
                    total += len(data)
    return total
