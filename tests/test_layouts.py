"""Layouts of the source that are rarer than chunks in C order: the target has the same layout, in the defined order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from oracle import assert_rows_in_order, row_order, stored_values
from strategies import synchronous
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, TransposeCodec, ZstdCodec

from shuffle_tasks import run_shuffle, verify

N = 41
SIZES = {"pile_rows": 20, "scatter_rows": 10, "levels": 1}
LAYOUTS: dict[str, dict[str, Any]] = {
    "keys of format 2 with slashes": {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "keys of format 2 with dots": {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "."}},
    "F order": {"zarr_format": 2, "order": "F"},
    "a filter": {"zarr_format": 2, "filters": [numcodecs.Delta("<i4")]},
    "lzma": {"zarr_format": 2, "compressors": numcodecs.LZMA()},
    "bz2": {"zarr_format": 2, "compressors": numcodecs.BZ2()},
    "lz4": {"zarr_format": 2, "compressors": numcodecs.LZ4()},
    "zlib": {"zarr_format": 2, "compressors": numcodecs.Zlib()},
    "keys of format 2 in format 3": {"zarr_format": 3, "chunk_key_encoding": {"name": "v2", "separator": "."}},
    "keys of format 2 with slashes in format 3": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "default keys with dots": {"zarr_format": 3, "chunk_key_encoding": {"name": "default", "separator": "."}},
    "transposed": {"zarr_format": 3, "filters": [TransposeCodec(order=(2, 0, 1))]},
    "big-endian": {"zarr_format": 3, "serializer": BytesCodec(endian="big")},
    "checksums": {"zarr_format": 3, "compressors": [ZstdCodec(level=1, checksum=True), Crc32cCodec()]},
    "two compressors": {"zarr_format": 3, "compressors": [BloscCodec(cname="zlib"), ZstdCodec(level=1)]},
    "shards with their index in front": {
        "zarr_format": 3,
        "shards": {"shape": (10, 4, 2), "index_location": "start"},
        "chunks": (5, 2, 2),
    },
    "shards longer than the data": {"zarr_format": 3, "shards": (60, 4, 2), "chunks": (5, 4, 1)},
    "one chunk longer than the data": {"zarr_format": 3, "chunks": (100, 3, 2)},
}


def write_array(path: Path, **layout: Any) -> dict[str, np.ndarray]:
    """Write numbers in a layout, and return what a reader finds."""
    values = np.random.Generator(np.random.Philox(1)).integers(-1000, 1000, (N, 3, 2)).astype("<i4")
    layout = {"chunks": (5, 2, 1), "zarr_format": 3} | layout
    array = zarr.create_array(path, shape=values.shape, dtype=values.dtype, **layout)
    array[...] = values
    return stored_values(path)


def layout_documents(path: Path) -> Any:
    """Return the metadata of a bare array, without its attributes."""
    name = "zarr.json" if (path / "zarr.json").exists() else ".zarray"
    return {k: v for k, v in json.loads((path / name).read_text()).items() if k != "attributes"}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_rare_layout_is_kept(tmp_path: Path, layout: dict[str, Any]) -> None:
    """The target has the source's layout to the letter, and its rows in the order of the definition."""
    rows = write_array(tmp_path / "in.zarr", **layout)
    config = synchronous(tmp_path / "in.zarr", tmp_path / "out.zarr", seed=2, **SIZES)
    run_shuffle(config)
    assert_rows_in_order(config.target, rows, row_order(N, 2))
    assert layout_documents(tmp_path / "out.zarr") == layout_documents(tmp_path / "in.zarr")
    assert verify(config.target, config.source).ok


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("lost", ["some", "all"])
def test_chunks_that_were_never_written(tmp_path: Path, zarr_format: int, sharded: Any, lost: str) -> None:
    """Absent chunks of a source are rows of its fill value; the target has every chunk."""
    shards = {"shards": (10, 4, 1), "chunks": (5, 2, 1)} if sharded and zarr_format == 3 else {}
    array = zarr.create_array(
        tmp_path / "in.zarr",
        shape=(N, 3, 2),
        dtype="f4",
        fill_value=1.5,
        **{"zarr_format": zarr_format, "chunks": (5, 2, 1), **shards},
    )
    if lost == "some":
        array[20:30] = 7
    rows = stored_values(tmp_path / "in.zarr")
    config = synchronous(tmp_path / "in.zarr", tmp_path / "out.zarr", **SIZES, verify_readback=True)
    run_shuffle(config)
    assert_rows_in_order(config.target, rows, row_order(N, 0))
    assert verify(config.target, config.source).ok


def test_a_group_of_unnamed_arrays(tmp_path: Path) -> None:
    """Without dimension names, axis 0 is the rows of every array; scalars are copied."""
    root = zarr.create_group(tmp_path / "in.zarr", attributes={"made": "by hand"})
    root.create_array("a", data=np.arange(N), chunks=(6,))
    root.create_array("deep/b", data=np.arange(2 * N).reshape(N, 2), chunks=(4, 1))
    root.create_array("scalar", data=np.array(3.5))
    rows = stored_values(tmp_path / "in.zarr")
    config = synchronous(tmp_path / "in.zarr", tmp_path / "out.zarr", seed=4, **SIZES)
    run_shuffle(config)
    found = stored_values(config.target)
    order = row_order(N, 4)
    assert found.pop("scalar") == rows.pop("scalar")
    for name, values in rows.items():
        np.testing.assert_array_equal(found[name], values[order])
    assert zarr.open_group(config.target, mode="r").attrs.asdict() == {"made": "by hand"}


def test_attributes_of_a_bare_array_are_kept(tmp_path: Path) -> None:
    """A bare array keeps its attributes and dimension names, and gains its provenance."""
    zarr.create_array(
        tmp_path / "in.zarr", shape=(N,), chunks=(5,), dtype="i4", attributes={"units": "m"}, dimension_names=["t"]
    )
    run_shuffle(synchronous(tmp_path / "in.zarr", tmp_path / "out.zarr"))
    found = zarr.open_array(tmp_path / "out.zarr", mode="r")
    assert {k: v for k, v in found.attrs.items() if k != "provenance"} == {"units": "m"}
    assert found.metadata.dimension_names == ("t",)
    assert len(found.attrs["provenance"]) == 1


def test_structured_rows(tmp_path: Path) -> None:
    """Rows of a structured dtype (native byte order) are shuffled as they are."""
    dtype = np.dtype([("x", "<f4"), ("n", "<i2"), ("s", "S3")])
    values = np.array([(i / 3, i, b"r%d" % i) for i in range(N)], dtype)
    array = zarr.create_array(tmp_path / "in.zarr", shape=(N,), chunks=(5,), dtype=dtype, zarr_format=2)
    array[...] = values
    run_shuffle(synchronous(tmp_path / "in.zarr", tmp_path / "out.zarr", **SIZES))
    assert_rows_in_order(tmp_path / "out.zarr", {"": values}, row_order(N, 0))


@pytest.mark.parametrize(("have", "want"), [(2, 3), (3, 2)])
@pytest.mark.parametrize("dtype", ["M8[ns]", "m8[s]", "?", "U4", "S4", "c8", "f2", "u8"])
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
def test_every_dtype_moves_to_the_other_format(tmp_path: Path, have: Any, want: Any, dtype: str) -> None:
    """Values of every dtype are the same in a target of the other format, and xarray reads what is missing as missing.

    Format 3 cannot tell xarray of a fill value that is a date or a fixed-length string: there the plain values count.
    """
    root = zarr.create_group(tmp_path / "in.zarr", zarr_format=have)
    values = np.arange(N).astype("i8" if dtype[0] in "Mm" else "u1").astype(dtype)
    names: dict[str, Any] = (
        {"dimension_names": ["row"]} if have == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["row"]}}
    )
    root.create_array("v", data=values, chunks=(5,), **names)
    config = synchronous(tmp_path / "in.zarr", tmp_path / "out.zarr", zarr_format=want)
    run_shuffle(config)
    assert_rows_in_order(config.target, {"v": values}, row_order(N, 0))
    before, after = (
        opened(config.source, dtype, consolidated=False),
        opened(config.target, dtype, consolidated=True),
    )
    xr.testing.assert_identical(after, before.isel(row=row_order(N, 0)))


def opened(path: str, dtype: str, *, consolidated: bool) -> xr.Dataset:
    """Return what xarray reads, with missing values decoded where both formats can tell them."""
    masks = np.dtype(dtype).kind in "biufc"
    with xr.open_zarr(path, chunks=None, consolidated=consolidated, mask_and_scale=masks) as dataset:
        return dataset.load() if masks else dataset.load().drop_attrs()
