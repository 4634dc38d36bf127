"""Shuffle: one task reads a pile, merges its sorted segments, and writes whole target objects.

segments of pile j  →  keys merged  →  rows gathered in key order  →  target rows [j·R, (j+1)·R)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_tasks.errors import CertificateError
from shuffle_tasks.measure import TaskMeter
from shuffle_tasks.randomness import stable_order
from shuffle_tasks.row_hash import Digest, RowHasher, binding_digest, content_digest, order_digest
from shuffle_tasks.scatter import hash_into, open_source_array, read_source_rows, row_hasher
from shuffle_tasks.storage.chunks import ChunkedArray
from shuffle_tasks.storage.codecs import one_codec_thread
from shuffle_tasks.storage.objects import LocalObjects
from shuffle_tasks.storage.piles import PileLevel
from shuffle_tasks.storage.records import write_record
from shuffle_tasks.storage.spec import RunSpec, TaskRef


def open_target_array(spec: RunSpec, path: str) -> ChunkedArray:
    """Return one array of the target, from the documents of the plan."""
    return ChunkedArray(LocalObjects(spec.target_root), path, spec.target_nodes[path], strict=True)


def shuffle_pile(ref: TaskRef) -> dict[str, Any]:
    """Shuffle one pile into its target rows, and return the commit record.

    Raises
    ------
    StorageError
        If a segment is damaged or missing.
    CertificateError
        If a key of the pile lies outside its splitters.
    """
    spec, meter = ref.spec(), TaskMeter()
    depth = len(spec.plan.levels) - 1
    piles = PileLevel(spec, depth)
    counts = piles.read_counts()[:, ref.index]
    spans = range(len(counts))
    start, stop = spec.plan.pile_span(ref.index)
    with one_codec_thread():
        keys = piles.read_pile(piles.keys, ref.index, spans, counts)
        order = stable_order(keys)
        keys = keys[order]
        _check_borders(spec, ref.index, keys)
        writer = _TargetWriter(spec, start, stop, order, meter)
        for path in spec.paths:
            with meter.part("read"):
                rows = piles.read_pile(piles.variable(path), ref.index, spans, counts)
            writer.write(path, rows)
            del rows
    return write_record(ref, writer.record(keys) | {"bytes_read": piles.bytes_read} | meter.summary())


def shuffle_in_memory(ref: TaskRef) -> dict[str, Any]:
    """Shuffle all rows at once, for a dataset that fits in one pile; the same result by the definition of the order.

    Raises
    ------
    StorageError
        If a source chunk is damaged.
    """
    spec, meter = ref.spec(), TaskMeter()
    n = spec.plan.n
    keys = spec.stream.words(0, n)
    order = stable_order(keys)
    hasher, bytes_read = row_hasher(spec), 0
    source_sums = hasher.zeros(n)
    with one_codec_thread():
        writer = _TargetWriter(spec, 0, n, order, meter)
        for number, path in enumerate(spec.paths):
            array = open_source_array(spec, path)
            rows = read_source_rows(spec, array, (0, n), hash_into(hasher, source_sums, number), meter)
            writer.write(path, rows)
            bytes_read += array.bytes_read
            del rows
    hashes = hasher.finish(source_sums)
    before = {"content": content_digest(hashes).hex(), "binding": binding_digest(hashes, keys).hex()}
    record = writer.record(keys[order]) | {"source_digests": before, "bytes_read": bytes_read}
    return write_record(ref, record | meter.summary())


class _TargetWriter:
    """Gathers rows in key order into whole target objects, hashing what it hands to the encoder."""

    def __init__(self, spec: RunSpec, start: int, stop: int, order: NDArray[np.int64], meter: TaskMeter) -> None:
        self._spec, self._start, self._stop, self._order, self._meter = spec, start, stop, order, meter
        self._hasher: RowHasher = row_hasher(spec)
        self._sums = self._hasher.zeros(stop - start)
        self._written = 0

    def write(self, path: str, rows: NDArray[Any]) -> None:
        """Write all target rows of one variable."""
        array, number = open_target_array(self._spec, path), self._spec.paths.index(path)
        unit = array.object_rows
        scratch = np.empty((min(unit, len(rows)), *rows.shape[1:]), rows.dtype)
        for at in range(0, len(rows), unit):
            part = scratch[: min(unit, len(rows) - at)]
            with self._meter.part("gather"):
                np.take(rows, self._order[at : at + len(part)], axis=0, out=part, mode="clip")
            with self._meter.part("digest"):
                self._hasher.add(self._sums[at : at + len(part)], number, part)
            with self._meter.part("write"):
                array.write_rows(self._start + at, part)
        self._written += array.bytes_written

    def record(self, sorted_keys: NDArray[np.uint64]) -> dict[str, Any]:
        """Return the part of the commit record that tells what was written."""
        with self._meter.part("digest"):
            hashes = self._hasher.finish(self._sums)
            digests: dict[str, Digest] = {
                "content": content_digest(hashes),
                "binding": binding_digest(hashes, sorted_keys),
                "order": order_digest(hashes, self._start),
            }
        return {
            "rows": len(sorted_keys),
            "target_rows": [self._start, self._stop],
            "first_key": f"{int(sorted_keys[0]):016x}",
            "last_key": f"{int(sorted_keys[-1]):016x}",
            "digests": {name: digest.hex() for name, digest in digests.items()},
            "bytes_written": self._written,
        }


def _check_borders(spec: RunSpec, pile: int, keys: NDArray[np.uint64]) -> None:
    """Check that the ascending keys of a pile lie between its splitters."""
    below, above = spec.splitters.keys[pile - 1 : pile], spec.splitters.keys[pile : pile + 1]
    if np.any(keys[:-1] > keys[1:]) or (pile and keys[0] < below[0]) or (len(above) and keys[-1] > above[0]):
        raise CertificateError(f"pile {pile} holds keys outside its range: rows are in the wrong pile")
