"""Whole-chunk access agrees with zarr-python, in both directions, for every codec chain, and names what is damaged."""

import itertools
import warnings

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

from shuffle_tasks.errors import StorageError
from shuffle_tasks.storage.chunks import ChunkedArray
from shuffle_tasks.storage.codecs import one_codec_thread
from shuffle_tasks.storage.objects import LocalObjects
from shuffle_tasks.storage.tree import node_documents, object_keys

SHAPE, CHUNKS = (23, 7), (5, 3)
V3_CHAINS = {
    "none": [],
    "zstd": [ZstdCodec(level=1)],
    "gzip": [GzipCodec(level=1)],
    "crc32c": [Crc32cCodec()],
    "blosc": [BloscCodec(cname="lz4", clevel=3, shuffle="bitshuffle")],
    "blosc, crc32c": [BloscCodec(cname="zstd", clevel=1, shuffle="shuffle"), Crc32cCodec()],
    "zstd, gzip": [ZstdCodec(level=1), GzipCodec(level=1)],
}
V2_COMPRESSORS = {
    "none": None,
    "blosc": numcodecs.Blosc("lz4", 3, 2),
    "zstd": numcodecs.Zstd(1),
    "gzip": numcodecs.GZip(1),
    "zlib": numcodecs.Zlib(1),
    "lz4": numcodecs.LZ4(),
    "bz2": numcodecs.BZ2(1),
}
DTYPES = ["<i2", ">i4", "<f2", ">f8", "?", "<c16", "u1", "<M8[s]", "<m8[ns]", "S5", "<U3"]


def values(dtype):
    """Return values of every kind, the first chunk all zero."""
    bits = np.random.default_rng(5).integers(0, 99, SHAPE)
    bits[:5] = 0
    return bits.astype(dtype)


def create(path, **options):
    """Create an array; format 3 warns that some dtypes are not yet specified."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return zarr.create_array(path, shape=SHAPE, **{"chunks": CHUNKS, **options})


def open_chunks(path, **options):
    """Return our view of a stored array."""
    objects = LocalObjects(str(path))
    return ChunkedArray(objects, "", node_documents(objects, ""), **options)


def check_both_ways(path, array, rows):
    """Read with ours what zarr-python wrote, and with zarr-python what ours wrote."""
    array[:] = rows
    ours = open_chunks(path)
    for start, stop in itertools.product((0, 3, 5), (5, 17, 23)):
        out = np.full((stop - start, *SHAPE[1:]), rows[-1, -1], rows.dtype.newbyteorder("="))
        ours.read_rows(start, stop, out)
        assert np.array_equal(out, rows[start:stop]), (start, stop)
    for key in object_keys("", node_documents(ours.objects, "")):
        ours.objects.delete(key)
    with one_codec_thread():
        ours.write_rows(0, np.ascontiguousarray(rows[:20]))
        ours.write_rows(20, np.ascontiguousarray(rows[20:]))
    assert np.array_equal(array[:], rows)
    assert all(ours.objects.exists(key) for key in object_keys("", node_documents(ours.objects, "")))


@pytest.mark.parametrize("chain", V3_CHAINS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_format_3(tmp_path, chain, dtype):
    """Format 3: each codec chain with each dtype, in both byte orders of the bytes codec."""
    order = "big" if dtype.startswith(">") else "little"
    serializer = BytesCodec(endian=order) if np.dtype(dtype).itemsize > 1 and dtype[0] in "<>" else "auto"
    if dtype.startswith("S"):
        serializer = "auto"
    array = create(tmp_path / "a", dtype=dtype, compressors=V3_CHAINS[chain], filters=None, serializer=serializer)
    check_both_ways(tmp_path / "a", array, values(dtype))


@pytest.mark.parametrize("compressor", V2_COMPRESSORS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_format_2(tmp_path, compressor, dtype):
    """Format 2: each compressor with each dtype, both dimension separators."""
    for separator in "./":
        path = tmp_path / f"a{ord(separator)}"
        encoding = {"name": "v2", "separator": separator}
        options = {"compressors": V2_COMPRESSORS[compressor], "filters": None, "chunk_key_encoding": encoding}
        check_both_ways(path, create(path, dtype=dtype, zarr_format=2, **options), values(dtype))


@pytest.mark.parametrize("options", [
    {"zarr_format": 2, "filters": [numcodecs.Delta("<i8")]},
    {"zarr_format": 2, "order": "F"},
    {"filters": [TransposeCodec(order=(1, 0))]},
    {"chunk_key_encoding": {"name": "v2", "separator": "."}},
])  # fmt: skip
def test_rare_chains_go_through_zarr(tmp_path, options):
    """Filters, column-major chunks, transposes and other chunk names."""
    check_both_ways(tmp_path / "a", create(tmp_path / "a", dtype="<i8", **options), values("<i8"))


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("chain", V3_CHAINS)
def test_shards(tmp_path, chain, location):
    """Shards of several chunks in both dimensions, partial at every edge, with the index at either end."""
    shards = {"shape": (10, 6), "index_location": location}
    array = create(tmp_path / "a", dtype="<f4", shards=shards, compressors=V3_CHAINS[chain])
    rows = values("<f4")
    array[:] = rows
    ours = open_chunks(tmp_path / "a")
    for start, stop in itertools.combinations((0, 3, 10, 14, 20, 23), 2):
        out = np.full((stop - start, 7), np.nan, "f4")
        ours.read_rows(start, stop, out)
        assert np.array_equal(out, rows[start:stop])
    for key in object_keys("", node_documents(ours.objects, "")):
        ours.objects.delete(key)
    ours.write_rows(0, rows)
    assert np.array_equal(array[:], rows)


@pytest.mark.parametrize("shards", [None, (10, 6)])
def test_absent_chunks(tmp_path, shards):
    """An absent chunk is fill values, or an error that names it when chunks must be there."""
    create(tmp_path / "a", dtype="<i4", fill_value=7, shards=shards)
    out = np.zeros(SHAPE, "i4")
    open_chunks(tmp_path / "a").read_rows(0, 23, out)
    assert (out == 7).all()
    with pytest.raises(StorageError, match="c/0/0"):
        open_chunks(tmp_path / "a", strict=True).read_rows(0, 23, out)


@pytest.mark.parametrize("shards", [None, (10, 6)])
@pytest.mark.parametrize("damage", [lambda b: b[:-3], lambda b: b"", lambda b: b[:-1] + bytes([b[-1] ^ 1])])
def test_damaged_chunks_are_named(tmp_path, shards, damage):
    """A chunk that is cut short, empty or changed (and has a checksum) is an error that names it."""
    array = create(tmp_path / "a", dtype="<i4", shards=shards, compressors=[ZstdCodec(level=1), Crc32cCodec()])
    array[:] = values("<i4")
    path = tmp_path / "a/c/1/1"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StorageError, match="c/1/1"):
        open_chunks(tmp_path / "a").read_rows(0, 23, np.zeros(SHAPE, "i4"))


def test_parts_of_objects_cannot_be_written(tmp_path):
    """A write that does not cover whole objects would have two writers for one, and is refused."""
    create(tmp_path / "a", dtype="<i4")
    ours = open_chunks(tmp_path / "a")
    for start, rows in ((1, 5), (0, 4), (5, 3)):
        with pytest.raises(ValueError, match="whole objects"):
            ours.write_rows(start, np.zeros((rows, 7), "i4"))


def test_put_is_atomic(tmp_path):
    """A put that fails leaves the old object and no other file."""
    objects = LocalObjects(str(tmp_path))
    objects.put("deep/a", b"old")
    with pytest.raises(TypeError):
        objects.put("deep/a", "text")
    assert objects.get("deep/a") == b"old"
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a"]
