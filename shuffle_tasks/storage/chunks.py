"""Whole-chunk access to one Zarr array, built from its metadata document alone.

An array whose root is not committed yet cannot be opened; its metadata is in the plan, and that is enough to read and
write chunks. Rows are read into the caller's buffer; each write covers whole stored objects, so that an object has one
writer.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.storage import LocalStore, StorePath

from shuffle_tasks.errors import StorageError
from shuffle_tasks.storage.codecs import ChunkCodec, chunk_codec
from shuffle_tasks.storage.objects import LocalObjects
from shuffle_tasks.storage.shards import ShardCodec, shard_codec

Documents = Mapping[str, Any]
"""The metadata objects of one node by name: `zarr.json`, or `.zarray`, `.zgroup` and `.zattrs`."""


def array_from_documents(objects: LocalObjects, path: str, documents: Documents) -> zarr.Array[Any]:
    """Return the Zarr array that these documents describe, without looking at the store's own metadata."""
    metadata: Any = (
        dict(documents["zarr.json"]) if "zarr.json" in documents else {**documents[".zarray"], "attributes": {}}
    )
    if "zarr.json" in documents:
        metadata["attributes"] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fixed-length strings and dates are not yet in the Zarr 3 specification
        async_array = zarr.AsyncArray(
            metadata=metadata,
            store_path=StorePath(LocalStore(objects.root), path),
            config={"write_empty_chunks": True, "order": "C"},
        )
        return zarr.Array(async_array)


class ChunkedArray:
    """Rows of one array, by whole chunks.

    Parameters
    ----------
    objects
        The store.
    path
        Path of the array in the store; "" is the root.
    documents
        The metadata documents of the array.
    strict
        A chunk that is absent is an error, not a chunk of fill values.

    Attributes
    ----------
    bytes_read, bytes_written : int
        Stored bytes that went through this object.
    """

    def __init__(self, objects: LocalObjects, path: str, documents: Documents, *, strict: bool = False) -> None:
        self.array = array_from_documents(objects, path, documents)
        self.objects = objects
        self.path = path
        self.strict = strict
        self.dtype: np.dtype[Any] = np.dtype(self.array.dtype)
        self.shape: tuple[int, ...] = self.array.shape
        self.chunks: tuple[int, ...] = self.array.shards or self.array.chunks
        self.bytes_read = 0
        self.bytes_written = 0
        self._codec: ChunkCodec | None = None if self.array.shards else chunk_codec(self.array)
        self._shards: ShardCodec | None = shard_codec(self.array)
        fill = self.array.metadata.fill_value
        self._fill = np.zeros((), self.dtype) if fill is None else np.asarray(fill).astype(self.dtype)

    @property
    def object_rows(self) -> int:
        """Rows of one stored object (a chunk, or a shard)."""
        return self.chunks[0]

    def key(self, index: tuple[int, ...]) -> str:
        """Return the key of a stored object, relative to the store."""
        name = self.array.metadata.encode_chunk_key(index)
        return f"{self.path}/{name}" if self.path else str(name)

    def _grid(self, start: int, stop: int) -> Iterator[tuple[int, ...]]:
        first, last = start // self.chunks[0], -(-stop // self.chunks[0])
        inner = (range(-(-size // chunk)) for size, chunk in zip(self.shape[1:], self.chunks[1:], strict=True))
        return itertools.product(range(first, last), *inner)

    def keys(self, start: int, stop: int) -> list[str]:
        """Return the keys of the objects that hold the rows [start, stop)."""
        return [self.key(index) for index in self._grid(start, stop)] if stop > start else []

    def read_rows(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read the rows [start, stop) into `out`, of shape (stop - start, *row) and C-contiguous.

        Raises
        ------
        StorageError
            If a chunk is damaged, or (when strict) absent.
        """
        for index in self._grid(start, stop) if stop > start else ():
            if self._shards is not None:
                self._read_shard(self._shards, index, start, stop, out)
            elif self._codec is None:
                self._read_through_zarr(index, start, stop, out)
            else:
                self._read_object(index, start, stop, out)

    def _read_through_zarr(self, index: tuple[int, ...], start: int, stop: int, out: NDArray[Any]) -> None:
        box = self._box(index, start, stop)
        self._check_present(index)
        try:
            values = self.array[box]
        except Exception as error:
            raise self._damaged(index, error) from error
        out[_shifted(box, start)] = values
        self.bytes_read += self.objects.size(self.key(index))

    def _read_shard(self, codec: ShardCodec, index: tuple[int, ...], start: int, stop: int, out: NDArray[Any]) -> None:
        box, key = self._box(index, start, stop), self.key(index)
        if not self.objects.exists(key):
            self._check_present(index)
            out[_shifted(box, start)] = self._fill
            return
        within = _within(box, index, self.chunks)
        try:
            self.bytes_read += codec.read(
                lambda at, size: self.objects.get_range(key, at, size) or b"",
                within,
                out[_shifted(box, start)],
                self._fill,
            )
        except Exception as error:
            raise self._damaged(index, error) from error

    def _read_object(self, index: tuple[int, ...], start: int, stop: int, out: NDArray[Any]) -> None:
        box = self._box(index, start, stop)
        data = self.objects.get(self.key(index))
        if data is None:
            self._check_present(index)
            out[_shifted(box, start)] = self._fill
            return
        self.bytes_read += len(data)
        view = out[_shifted(box, start)]
        whole = view.shape == self.chunks and view.flags.c_contiguous and view.dtype == self.dtype
        chunk = view if whole else np.empty(self.chunks, self.dtype)
        assert self._codec is not None
        try:
            self._codec.decode(data, chunk)
        except Exception as error:
            raise self._damaged(index, error) from error
        if not whole:
            view[...] = chunk[_within(box, index, self.chunks)]

    def write_rows(self, start: int, rows: NDArray[Any]) -> None:
        """Write `rows` at row `start`; both ends are borders of stored objects, or the array's end."""
        stop = start + len(rows)
        if start % self.chunks[0] or (stop % self.chunks[0] and stop != self.shape[0]):
            raise ValueError(f"rows [{start}, {stop}) do not cover whole objects of {self.chunks[0]} rows")
        for index in self._grid(start, stop) if stop > start else ():
            box = self._box(index, start, stop)
            if self._codec is None and self._shards is None:
                self.array[box] = rows[_shifted(box, start)]
                self.bytes_written += self.objects.size(self.key(index))
            else:
                self.write_object(index, self._whole_chunk(rows[_shifted(box, start)]))

    def write_object(self, index: tuple[int, ...], chunk: NDArray[Any]) -> None:
        """Encode and write one whole stored object, of shape `chunks`."""
        codec = self._shards or self._codec
        if codec is None:
            raise TypeError(f"the codecs of {self.path!r} are not known here: write rows, not objects")
        self.bytes_written += self.objects.put(self.key(index), *codec.encode(chunk))

    def read_object(self, index: tuple[int, ...], out: NDArray[Any]) -> None:
        """Decode one whole stored object into `out`, C-contiguous and of as many elements.

        Raises
        ------
        StorageError
            If the object is damaged or absent.
        """
        data = self.objects.get(self.key(index))
        if data is None or self._codec is None:
            raise StorageError(f"chunk {self.key(index)!r} of {self.objects.root} is missing")
        self.bytes_read += len(data)
        try:
            self._codec.decode(data, out.reshape(self.chunks))
        except Exception as error:
            raise self._damaged(index, error) from error

    def _whole_chunk(self, values: NDArray[Any]) -> NDArray[Any]:
        if values.shape == self.chunks:
            return np.ascontiguousarray(values)
        chunk = np.full(self.chunks, self._fill, self.dtype)
        chunk[tuple(slice(0, size) for size in values.shape)] = values
        return chunk

    def _box(self, index: tuple[int, ...], start: int, stop: int) -> tuple[slice, ...]:
        box = [slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(index, self.chunks, self.shape, strict=True)]
        return (slice(max(box[0].start, start), min(box[0].stop, stop)), *box[1:])

    def _check_present(self, index: tuple[int, ...]) -> None:
        if self.strict and not self.objects.exists(self.key(index)):
            raise StorageError(f"chunk {self.key(index)!r} of {self.objects.root} is missing")

    def _damaged(self, index: tuple[int, ...], error: Exception) -> StorageError:
        return StorageError(
            f"chunk {self.key(index)!r} of variable {self.path or '(root)'!r} in {self.objects.root} "
            f"cannot be decoded: {error}"
        )


def _shifted(box: tuple[slice, ...], start: int) -> tuple[slice, ...]:
    """Return `box` in the coordinates of a buffer whose first row is row `start`."""
    return (slice(box[0].start - start, box[0].stop - start), *box[1:])


def _within(box: tuple[slice, ...], index: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[slice, ...]:
    """Return `box` in the coordinates of its own chunk."""
    return tuple(slice(b.start - i * c, b.stop - i * c) for b, i, c in zip(box, index, chunks, strict=True))
