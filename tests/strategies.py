"""Hypothesis strategies: datasets of any layout that the package accepts, and sizes of runs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracle import stored_values
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec
from zarr.errors import UnstableSpecificationWarning

from shuffle_tasks import ShuffleConfig

NUMBERS = ["u1", "i1", "<u2", ">u2", "<i4", ">i4", "<i8", ">u8", "<f2", ">f4", "<f8", "<c8", ">c16"]
OTHERS = ["?", "M8[ns]", ">M8[s]", "m8[ms]", "<U3", ">U5", "S1", "S7"]
CODECS = ["none", "blosc", "zstd", "gzip"]


@dataclass(frozen=True)
class Layout:
    """How one array is stored, and the seed of its values."""

    dtype: str
    row_shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shard_chunks: int | None
    codec: str
    fill: bool
    skipped: bool
    values_seed: int

    def values(self, n: int) -> NDArray[Any]:
        """Return the values: random bits where every pattern is a value."""
        dtype, shape = np.dtype(self.dtype), (n, *self.row_shape)
        generator = np.random.Generator(np.random.Philox(self.values_seed))
        if dtype.kind == "U":
            letters = generator.choice(list("aBé漢🙂"), (*shape, dtype.itemsize // 4))
            return np.array(["".join(word) for word in letters.reshape(-1, letters.shape[-1])], dtype).reshape(shape)
        if dtype.kind == "b":
            return generator.integers(0, 2, shape).astype(bool)
        raw = generator.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
        return np.ascontiguousarray(raw).view(dtype).reshape(shape)

    def fill_value(self) -> Any:
        """Return a fill value of the dtype, or its zero."""
        dtype = np.dtype(self.dtype)
        one: Any = "a" if dtype.kind == "U" else b"a" if dtype.kind == "S" else 1
        return np.array([one if self.fill else 0 * one]).astype(dtype)[0]


@dataclass(frozen=True)
class Dataset:
    """A dataset that is not yet written: its arrays by name ("" alone is a bare array)."""

    n: int
    zarr_format: int
    arrays: dict[str, Layout]

    def write(self, path: Any) -> dict[str, NDArray[Any]]:
        """Write it, and return the values that a reader finds."""
        if "" not in self.arrays:
            zarr.create_group(path, zarr_format=self.zarr_format)
        for name, layout in self.arrays.items():
            self._write_array(path, name, layout)
        return stored_values(path)

    def _write_array(self, path: Any, name: str, layout: Layout) -> None:
        values, shards = layout.values(self.n), None
        if layout.shard_chunks and self.zarr_format == 3:
            shards = (layout.chunks[0] * layout.shard_chunks, *layout.chunks[1:])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnstableSpecificationWarning)
            array = zarr.create_array(
                path,
                name=name or None,
                shape=values.shape,
                dtype=values.dtype,
                chunks=layout.chunks,
                shards=shards,
                compressors=compressor_of(layout.codec, self.zarr_format),
                fill_value=layout.fill_value(),
                zarr_format=self.zarr_format,
            )
            first = min(self.n, layout.chunks[0]) if layout.skipped else 0
            array[first:] = values[first:]


def compressor_of(codec: str, zarr_format: int) -> Any:
    """Return the compressor of a name, for a format."""
    if codec == "none":
        return None
    if zarr_format == 3:
        return {"blosc": BloscCodec(cname="lz4"), "zstd": ZstdCodec(level=1), "gzip": GzipCodec(level=1)}[codec]
    import numcodecs

    return {"blosc": numcodecs.Blosc("lz4"), "zstd": numcodecs.Zstd(1), "gzip": numcodecs.GZip(1)}[codec]


@st.composite
def layouts(draw: st.DrawFn, n: int) -> Layout:
    """Draw how one array of `n` rows is stored; chunks may be partial at the edges, in every dimension."""
    row_shape = draw(st.sampled_from([(), (), (3,), (4, 5), (1, 2)]))
    chunks = (draw(st.integers(1, max(1, n + 3))), *(draw(st.integers(1, size)) for size in row_shape))
    return Layout(
        dtype=draw(st.sampled_from(NUMBERS) | st.sampled_from(OTHERS)),
        row_shape=row_shape,
        chunks=chunks,
        shard_chunks=draw(st.none() | st.integers(1, 3)),
        codec=draw(st.sampled_from(CODECS)),
        fill=draw(st.booleans()),
        skipped=draw(st.booleans()),
        values_seed=draw(st.integers(0, 2**16)),
    )


@st.composite
def datasets(draw: st.DrawFn, max_rows: int = 60) -> Dataset:
    """Draw a bare array, or a group of one to three arrays."""
    n = draw(st.integers(0, 3) | st.integers(4, max_rows))
    names = draw(st.sampled_from([("",), ("x",), ("x", "y"), ("images", "labels", "key")]))
    return Dataset(n, draw(st.sampled_from([2, 3])), {name: draw(layouts(n)) for name in names})


@st.composite
def run_sizes(draw: st.DrawFn, max_rows: int = 60) -> dict[str, Any]:
    """Draw sizes of a run: the fields of a configuration that must not change its result."""
    rows = st.none() | st.integers(1, max_rows)
    levels = draw(st.sampled_from([None, 0, 1, 2, 3]))
    return {
        "pile_rows": draw(rows) if levels != 0 else None,
        "scatter_rows": draw(rows) if levels != 0 else None,
        "levels": levels,
        "memory": draw(st.sampled_from([2**27, 2**30])),
    }


def synchronous(source: Any, target: Any, **fields: Any) -> ShuffleConfig:
    """Return the configuration of a run in the calling thread."""
    return ShuffleConfig(**{"source": source, "target": target, "scheduler": "synchronous", "memory": 2**28, **fields})


@st.composite
def target_options(draw: st.DrawFn, max_rows: int = 60) -> dict[str, Any]:
    """Draw how a target differs from its source: fields of a configuration that change stored bytes but no values."""
    chunk_rows = draw(st.none() | st.integers(1, max_rows))
    zarr_format = draw(st.sampled_from([None, 2, 3]))
    shards = draw(st.integers(1, 3)) if chunk_rows and zarr_format == 3 and draw(st.booleans()) else None
    codec = draw(st.sampled_from([None, "none", "gzip:1", "zstd:-1", "blosc", "blosc:lz4:9:bitshuffle", "blosc::0"]))
    return {
        "chunk_rows": chunk_rows,
        "zarr_format": zarr_format,
        "shard_rows": chunk_rows * shards if shards else None,
        "codec": codec,
        "verify_readback": draw(st.booleans()),
    }
