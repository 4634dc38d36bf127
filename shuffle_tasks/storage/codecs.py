"""Chunk bytes to rows and back, for the codec chains that most arrays have, without copies that can be avoided.

zarr-python's own pipeline adds about 1 s a GB to reading and to writing: it decodes into a buffer of its own and
copies, and starts a coroutine for every step. Here a chunk is decoded straight into the rows of the caller's buffer. A
chain that this module does not know gives None, and the caller uses zarr-python.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numcodecs
import numcodecs.blosc
import numpy as np
import zarr
from numpy.typing import NDArray

_V2_COMPRESSORS = {"blosc", "zstd", "gzip", "zlib", "lz4", "bz2"}
_FIXED_KINDS = "biufcMmSUV"
_BLOSC_SHUFFLE = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}


@contextlib.contextmanager
def one_codec_thread() -> Iterator[None]:
    """Run Blosc in the calling thread only: its own threads finish blocks in any order, so bytes would differ."""
    before = numcodecs.blosc.use_threads
    numcodecs.blosc.use_threads = False
    try:
        yield
    finally:
        numcodecs.blosc.use_threads = before


CRC32C_RESIDUE = 0x48674BC7
"""The crc32c of any bytes followed by their own crc32c, little-endian: checking needs no copy without the last four."""


class _Crc32c:
    """The crc32c codec of Zarr 3: four little-endian bytes behind the data."""

    def encode(self, data: Any) -> bytes:
        return b"".join((memoryview(data).cast("B"), self.checksum(data)))

    @staticmethod
    def checksum(data: Any) -> bytes:
        """Return the four bytes."""
        whole = data if isinstance(data, bytes) else bytes(data)
        return int(google_crc32c.value(whole)).to_bytes(4, "little")

    def decode(self, data: Any, out: Any = None) -> Any:
        whole = data if isinstance(data, bytes) else bytes(data)
        if len(whole) < 4 or google_crc32c.value(whole) != CRC32C_RESIDUE:
            raise ValueError("the crc32c checksum does not agree")
        body = memoryview(data)[:-4]
        if out is None:
            return body
        np.copyto(out, np.frombuffer(body, "u1"))
        return out


def bytes_view(values: NDArray[Any]) -> NDArray[np.uint8]:
    """View a C-contiguous array of any fixed-size dtype as its bytes, writable if it is."""
    return values.reshape(-1).view(f"V{values.dtype.itemsize}").view("u1")


@dataclass(frozen=True, slots=True)
class ChunkCodec:
    """The codecs of one array.

    Attributes
    ----------
    stored : dtype
        Of the stored values.
    steps : tuple
        Codecs of bytes, in the order of encoding.
    typed : bool
        The first one takes the element size from its input (format 2), instead of knowing it (format 3).
    """

    stored: np.dtype[Any]
    steps: tuple[Any, ...]
    typed: bool = False

    def encode(self, chunk: NDArray[Any]) -> tuple[Any, ...]:
        """Return the bytes of one whole C-contiguous chunk, in parts that follow one another."""
        values = chunk.astype(self.stored, copy=False)
        data: Any = values if self.typed else bytes_view(values)
        for step in self.steps:
            if step is self.steps[-1] and isinstance(step, _Crc32c):
                return data, step.checksum(data)
            data = step.encode(data)
        return (data,)

    def decode(self, data: bytes, out: NDArray[Any]) -> None:
        """Decode one whole chunk into `out`, C-contiguous and of the chunk's shape.

        Raises
        ------
        Exception
            Whatever the codec raises for damaged data, or ValueError if the size is wrong.
        """
        target = out if out.dtype == self.stored else np.empty(out.shape, self.stored)
        body: Any = data
        for step in reversed(self.steps[1:]):
            body = step.decode(body)
        flat = bytes_view(target)
        if self.steps:
            self.steps[0].decode(body, out=flat)
        else:
            np.copyto(flat, np.frombuffer(body, "u1"))
        if target is not out:
            np.copyto(out, target)


def chunk_codec(array: zarr.Array[Any]) -> ChunkCodec | None:
    """Return the codec chain of `array`, or None for shards, filters, transposes and rare codecs."""
    dtype = np.dtype(array.dtype)
    if array.metadata.zarr_format == 2:
        return _v2_codec(array.metadata, dtype)
    return v3_codec([codec.to_dict() for codec in array.metadata.codecs], dtype)


def _is_fixed(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in _FIXED_KINDS and not dtype.hasobject and dtype.itemsize > 0


def _v2_codec(metadata: Any, dtype: np.dtype[Any]) -> ChunkCodec | None:
    compressor = metadata.compressor
    if (metadata.order != "C" and len(metadata.shape) > 1) or metadata.filters or not _is_fixed(dtype):
        return None
    if compressor is None:
        return ChunkCodec(dtype, ())
    return ChunkCodec(dtype, (compressor,), typed=True) if compressor.codec_id in _V2_COMPRESSORS else None


def v3_codec(chain: list[dict[str, Any]], dtype: np.dtype[Any]) -> ChunkCodec | None:
    """Return the codec chain of Zarr 3 codec documents, or None if zarr-python must handle it."""
    if not chain or chain[0]["name"] != "bytes" or not _is_fixed(dtype):
        return None
    endian = chain[0].get("configuration", {}).get("endian")
    stored = dtype.newbyteorder(">" if endian == "big" else "<")
    steps = tuple(_v3_step(step["name"], step.get("configuration", {}), stored.itemsize) for step in chain[1:])
    return None if None in steps else ChunkCodec(stored, steps)


def _v3_step(name: str, settings: Any, itemsize: int) -> Any:
    if name == "blosc":
        return numcodecs.Blosc(
            cname=_text(settings["cname"]),
            clevel=settings["clevel"],
            shuffle=_BLOSC_SHUFFLE[_text(settings["shuffle"])],
            blocksize=settings.get("blocksize", 0),
            typesize=settings.get("typesize") or itemsize,
        )
    if name == "zstd":
        return numcodecs.Zstd(level=settings["level"], checksum=settings.get("checksum", False))
    if name == "gzip":
        return numcodecs.GZip(level=settings["level"])
    return _Crc32c() if name == "crc32c" else None


def _text(value: Any) -> str:
    """Return the name of an enum member or the text itself."""
    return str(getattr(value, "value", value))
