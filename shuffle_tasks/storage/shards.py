"""Shards: several inner chunks in one stored object, with an index of where each is (Zarr 3 codec `sharding_indexed`).

    inner chunk 0 | inner chunk 1 | … | index: (offset, length) of every chunk, uint64, and its crc32c

zarr-python writes a shard at half the speed of plain chunks; here each inner chunk goes through the same codecs as a
plain chunk, and a reader of some rows fetches the index and those chunks only. The layout is that of the Zarr 3.1
specification of the codec.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray

from shuffle_tasks.storage.codecs import ChunkCodec, v3_codec

Box = tuple[slice, ...]
ReadRange = Callable[[int, int], bytes]
"""Offset (negative: from the end) and length → bytes."""

_ABSENT = 2**64 - 1
_INDEX_CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]


@dataclass(frozen=True, slots=True)
class ShardCodec:
    """The codec of one sharded array.

    Attributes
    ----------
    shape, chunk : tuple of int
        Shape of a shard, and of an inner chunk.
    inner : ChunkCodec
        Codecs of an inner chunk.
    index_first : bool
        Whether the index stands before the chunks.
    """

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    inner: ChunkCodec
    index_first: bool

    @property
    def grid(self) -> tuple[int, ...]:
        """Inner chunks along each axis."""
        return tuple(size // part for size, part in zip(self.shape, self.chunk, strict=True))

    @property
    def index_bytes(self) -> int:
        """Bytes of the index with its checksum."""
        return 16 * math.prod(self.grid) + 4

    def _boxes(self) -> Iterator[tuple[int, Box]]:
        """Yield number and position of every inner chunk, in C order."""
        for number, index in enumerate(itertools.product(*map(range, self.grid))):
            yield number, tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, self.chunk, strict=True))

    def encode(self, shard: NDArray[Any]) -> tuple[Any, ...]:
        """Return the bytes of one whole shard, in parts that follow one another."""
        parts: list[Any] = []
        index = np.empty((math.prod(self.grid), 2), "<u8")
        at = self.index_bytes if self.index_first else 0
        for number, box in self._boxes():
            start = at
            for part in self.inner.encode(np.ascontiguousarray(shard[box])):
                parts.append(memoryview(part).cast("B"))
                at += parts[-1].nbytes
            index[number] = start, at - start
        footer = index.tobytes()
        footer += int(google_crc32c.value(footer)).to_bytes(4, "little")
        return (footer, *parts) if self.index_first else (*parts, footer)

    def read(self, read_range: ReadRange, box: Box, out: NDArray[Any], fill: NDArray[Any]) -> int:
        """Read the part `box` of a shard into `out`, of the same shape, and return the bytes read.

        Raises
        ------
        ValueError
            If the index or a chunk is damaged.
        """
        index = self._read_index(read_range)
        total = self.index_bytes
        for number, where in self._boxes():
            if any(w.stop <= b.start or w.start >= b.stop for w, b in zip(where, box, strict=True)):
                continue
            common = tuple(slice(max(w.start, b.start), min(w.stop, b.stop)) for w, b in zip(where, box, strict=True))
            view = out[_relative(common, box)]
            offset, length = map(int, index[number])
            if offset == _ABSENT == length:
                view[...] = fill
                continue
            total += length
            self._read_chunk(read_range(offset, length), length, view, _relative(common, where))
        return total

    def _read_chunk(self, data: bytes, length: int, view: NDArray[Any], within: Box) -> None:
        if len(data) != length:
            raise ValueError(f"an inner chunk of {length} bytes reaches beyond the end of the shard")
        if view.shape == self.chunk and view.flags.c_contiguous:
            self.inner.decode(data, view)
            return
        chunk = np.empty(self.chunk, view.dtype)
        self.inner.decode(data, chunk)
        view[...] = chunk[within]

    def _read_index(self, read_range: ReadRange) -> NDArray[np.uint64]:
        data = read_range(0 if self.index_first else -self.index_bytes, self.index_bytes)
        body = data[:-4]
        if len(data) != self.index_bytes or google_crc32c.value(body) != int.from_bytes(data[-4:], "little"):
            raise ValueError("the checksum of the shard's index does not agree")
        return np.frombuffer(body, "<u8").reshape(-1, 2)


def _relative(box: Box, origin: Box) -> Box:
    return tuple(slice(b.start - o.start, b.stop - o.start) for b, o in zip(box, origin, strict=True))


def shard_codec(array: zarr.Array[Any]) -> ShardCodec | None:
    """Return the codec of a sharded array, or None if zarr-python must handle it (nested shards, rare codecs)."""
    if array.shards is None or array.metadata.zarr_format != 3 or len(array.metadata.codecs) != 1:
        return None
    settings: Any = array.metadata.codecs[0].to_dict()["configuration"]
    index_codecs = [dict(codec) for codec in settings["index_codecs"]]
    inner = v3_codec([dict(codec) for codec in settings["codecs"]], np.dtype(array.dtype))
    if inner is None or index_codecs != _INDEX_CODECS:
        return None
    location = str(getattr(settings["index_location"], "value", settings["index_location"]))
    return ShardCodec(array.shards, array.chunks, inner, location == "start")
