"""Pile stores: what one scatter level writes and the next stage reads.

piles.zarr/<variable>   (K spans, M piles, cap, *row), chunks (1, 1, piece, *row): segment p^k_j is piles[k, j,
:count[k, j]] piles.zarr/key          (K, M, cap) uint64, ascending within a segment
piles.zarr/count        (K, M) int64, written by combine from the commit records
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import LocalStore

from shuffle_tasks.errors import DamagedPileError, StorageError
from shuffle_tasks.planning.memory import piece_rows
from shuffle_tasks.storage import tree
from shuffle_tasks.storage.chunks import ChunkedArray, array_from_documents
from shuffle_tasks.storage.objects import LocalObjects
from shuffle_tasks.storage.records import stage_name
from shuffle_tasks.storage.spec import RunSpec

MANIFEST_VERSION = 1
COUNT_NAME = "count"

BLOSC_BLOCK = 2**17
"""Faster than the blocks that Blosc chooses, by a tenth for noise of float32 and by a third for bytes."""


def store_name(spec: RunSpec, depth: int) -> str:
    """Return the name of a level's store; the last level's is the one that is kept."""
    return "piles.zarr" if depth == len(spec.plan.levels) - 1 else f"piles-level-{depth + 1}.zarr"


def memory_dtype(documents: Mapping[str, Any]) -> np.dtype[Any]:
    """Return the dtype of rows in memory and in piles: the source's, in this machine's byte order."""
    return np.dtype(array_from_documents(LocalObjects(""), "", documents).dtype).newbyteorder("=")


def pile_codecs(dtype: np.dtype[Any]) -> list[Any]:
    """Return a fast codec (on float32 noise LZ4 takes a third of the time of Zstandard) and a checksum."""
    shuffle: Any = "shuffle" if dtype.itemsize > 1 else "bitshuffle"
    return [
        BloscCodec(cname="lz4", clevel=1, shuffle=shuffle, typesize=min(dtype.itemsize, 255), blocksize=BLOSC_BLOCK),
        Crc32cCodec(),
    ]


def create_piles(spec: RunSpec, depth: int) -> None:
    """Write the metadata of a level's store."""
    level = spec.plan.levels[depth]
    root = f"{spec.work}/{store_name(spec, depth)}"
    attributes = {
        "pileshuffle_piles": {
            "version": MANIFEST_VERSION,
            "n": spec.plan.n,
            "seed": spec.plan.seed,
            "epoch": spec.plan.epoch,
            "level": depth + 1,
            "span_rows": level.span_rows,
            "pile_rows": level.pile_rows,
            "key": spec.key_name,
            "count": _count_name(spec),
            "source": spec.source_url,
            "variables": list(spec.paths),
        }
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fixed-length strings and dates are not yet in the Zarr 3 specification
        group = zarr.create_group(LocalStore(root), attributes=attributes, overwrite=True)
        for variable in spec.plan.variables:
            name = variable.path or "data"
            dtype = memory_dtype(spec.source_nodes[variable.path])
            row = tree.shape_of(spec.source_nodes[variable.path])[1:]
            _create_segments(group, name, level.spans, level.piles, level.segment_rows, row, dtype)
        _create_segments(group, spec.key_name, level.spans, level.piles, level.segment_rows, (), np.dtype(np.uint64))
        group.create_array(
            _count_name(spec), shape=(level.spans, level.piles), chunks=(level.spans, level.piles), dtype=np.int64
        )


def _count_name(spec: RunSpec) -> str:
    name = COUNT_NAME
    while any((path or "data").split("/")[0] == name for path in spec.paths):
        name = f"_{name}"
    return name


def _create_segments(
    group: zarr.Group, name: str, spans: int, piles: int, rows: int, row_shape: tuple[int, ...], dtype: np.dtype[Any]
) -> None:
    row_bytes = dtype.itemsize * int(np.prod(row_shape, dtype=np.int64))
    piece = piece_rows(max(rows, 1), max(row_bytes, 1))
    group.create_array(
        name,
        shape=(spans, piles, -(-max(rows, 1) // piece) * piece, *row_shape),
        chunks=(1, 1, piece, *row_shape),
        dtype=dtype,
        filters=None,
        compressors=pile_codecs(dtype),
        fill_value=np.zeros((), dtype)[()],
    )


class PileLevel:
    """The segments of one level, to write and to read.

    Parameters
    ----------
    spec
        The run.
    depth
        The level, from 0.
    """

    def __init__(self, spec: RunSpec, depth: int) -> None:
        self.spec = spec
        self.depth = depth
        self.level = spec.plan.levels[depth]
        self.objects = LocalObjects(f"{spec.work}/{store_name(spec, depth)}")
        self.keys = self._open(spec.key_name)
        self._variables = {path: self._open(path or "data") for path in spec.paths}

    def _open(self, name: str) -> ChunkedArray:
        documents = tree.node_documents(self.objects, name)
        if not documents:
            raise StorageError(
                f"the pile array {name!r} in {self.objects.root} is missing: remove the work directory and run again"
            )
        return ChunkedArray(self.objects, name, documents, strict=True)

    def variable(self, path: str) -> ChunkedArray:
        """Return the pile array of a variable."""
        return self._variables[path]

    @property
    def bytes_read(self) -> int:
        """Stored bytes read so far."""
        return sum(array.bytes_read for array in (self.keys, *self._variables.values()))

    @property
    def bytes_written(self) -> int:
        """Stored bytes written so far."""
        return sum(array.bytes_written for array in (self.keys, *self._variables.values()))

    def write_keys(self, span: int, piles: range, sorted_keys: NDArray[np.uint64], cuts: NDArray[np.int64]) -> None:
        """Write the keys of a task, ascending, cut into `piles`."""
        self._write(self.keys, span, piles, sorted_keys, None, cuts)

    def write_rows(
        self, path: str, span: int, piles: range, rows: NDArray[Any], order: NDArray[np.int64], cuts: NDArray[np.int64]
    ) -> None:
        """Write the rows of a task in the given order, cut into `piles`, gathering each piece for the encoder."""
        self._write(self._variables[path], span, piles, rows, order, cuts)

    def _write(
        self,
        array: ChunkedArray,
        span: int,
        piles: range,
        rows: NDArray[Any],
        order: NDArray[np.int64] | None,
        cuts: NDArray[np.int64],
    ) -> None:
        piece = array.chunks[2]
        scratch = np.zeros(array.chunks, rows.dtype)
        gathered = scratch.reshape(piece, *array.chunks[3:])
        for position, pile in enumerate(piles):
            for number, start in enumerate(range(cuts[position], cuts[position + 1], piece)):
                stop = min(start + piece, cuts[position + 1])
                if order is None:
                    gathered[: stop - start] = rows[start:stop]
                else:
                    np.take(rows, order[start:stop], axis=0, out=gathered[: stop - start], mode="clip")
                gathered[stop - start :] = np.zeros((), rows.dtype)
                array.write_object((span, pile, number, *(0,) * (len(array.chunks) - 3)), scratch)

    def read_segment(self, array: ChunkedArray, span: int, pile: int, count: int, out: NDArray[Any]) -> None:
        """Read the `count` rows of a segment into the start of `out`, which has room for whole pieces."""
        piece = array.chunks[2]
        for number, start in enumerate(range(0, count, piece)):
            index = (span, pile, number, *(0,) * (len(array.chunks) - 3))
            try:
                array.read_object(index, out[start : start + piece])
            except StorageError as error:
                parent = self.level.parent_of(pile)
                writer = stage_name(self.depth, self.spec.plan), parent * self.level.spans + span
                raise DamagedPileError(str(error), *writer) from error

    def read_pile(self, array: ChunkedArray, pile: int, spans: range, counts: NDArray[np.int64]) -> NDArray[Any]:
        """Return the rows of some segments of a pile, one behind the other in span order."""
        total = int(counts.sum())
        buffer = np.empty((total + array.chunks[2], *array.shape[3:]), array.dtype)
        at = 0
        for span, count in zip(spans, counts.tolist(), strict=True):
            self.read_segment(array, span, pile, count, buffer[at:])
            at += count
        return buffer[:total]

    def write_counts(self, counts: NDArray[np.int64]) -> None:
        """Write the index: rows of every segment, shape (spans, piles)."""
        array = ChunkedArray(
            self.objects, _count_name(self.spec), tree.node_documents(self.objects, _count_name(self.spec))
        )
        array.write_rows(0, counts)

    def read_counts(self) -> NDArray[np.int64]:
        """Return the index: rows of every segment, shape (spans, piles)."""
        return _read_counts(self.objects.root, _count_name(self.spec), self.spec.plan_id)


@functools.lru_cache(maxsize=4)
def _read_counts(root: str, name: str, _plan_id: str) -> NDArray[np.int64]:
    objects = LocalObjects(root)
    array = ChunkedArray(objects, name, tree.node_documents(objects, name), strict=True)
    counts = np.empty(array.shape, np.int64)
    array.read_rows(0, array.shape[0], counts)
    counts.flags.writeable = False
    return counts
