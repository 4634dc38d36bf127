"""Scatter: one task reads a span of source rows, sorts them by key, and cuts them into one segment a pile.

    source rows [start, stop)  →  keys  →  order  →  segment 0 | segment 1 | … | segment M-1      (each ascending by
    key)

The deeper levels do the same to the segments of one parent pile. Tasks are idempotent: the same task writes the same
bytes to the same keys, and its commit record after them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_tasks.measure import TaskMeter
from shuffle_tasks.randomness import Splitters, stable_order
from shuffle_tasks.randomness.cutting import cut_keys
from shuffle_tasks.row_hash import RowHasher, binding_digest, content_digest
from shuffle_tasks.storage.chunks import ChunkedArray
from shuffle_tasks.storage.codecs import one_codec_thread
from shuffle_tasks.storage.objects import LocalObjects
from shuffle_tasks.storage.piles import PileLevel, memory_dtype
from shuffle_tasks.storage.records import write_record
from shuffle_tasks.storage.spec import RunSpec, TaskRef

SLAB_BYTES = 2**21
"""Rows are hashed by about so many bytes, and at least one stored object, at a time."""


def open_source_array(spec: RunSpec, path: str) -> ChunkedArray:
    """Return one array of the source, from the documents of the plan."""
    return ChunkedArray(LocalObjects(spec.source_url), path, spec.source_nodes[path])


def read_source_rows(
    spec: RunSpec,
    array: ChunkedArray,
    span: tuple[int, int],
    add: Callable[[int, NDArray[Any]], None],
    meter: TaskMeter,
) -> NDArray[Any]:
    """Return some source rows of one array, in this machine's byte order.

    Parameters
    ----------
    spec
        The run.
    array
        One of its source arrays.
    span
        Rows [start, stop).
    add
        Is called with the offset of each slab of rows as soon as it is decoded: hashing it while it is in the cache
        saves a pass over memory.
    meter
        Takes the times of reading and of digests.
    """
    start, stop = span
    rows = np.empty((stop - start, *array.shape[1:]), memory_dtype(spec.source_nodes[array.path]))
    step = array.object_rows * max(1, SLAB_BYTES // max(1, rows[:1].nbytes * array.object_rows))
    at = start
    while at < stop:
        end = min(stop, (at // array.object_rows) * array.object_rows + step)
        slab = rows[at - start : end - start]
        with meter.part("read"):
            array.read_rows(at, end, slab)
        with meter.part("digest"):
            add(at - start, slab)
        at = end
    return rows


def hash_into(hasher: RowHasher, sums: NDArray[np.uint64], variable: int) -> Callable[[int, NDArray[Any]], None]:
    """Return a function that adds slabs of one variable's rows, given their offsets, to `sums`."""
    return lambda at, slab: hasher.add(sums[at : at + len(slab)], variable, slab)


def row_hasher(spec: RunSpec) -> RowHasher:
    """Return the hasher of this run's rows."""
    return RowHasher([v.row_bytes for v in spec.plan.variables])


def scatter_span(ref: TaskRef) -> dict[str, Any]:
    """Scatter one span of source rows into the piles of the first level, and return the commit record.

    Raises
    ------
    StorageError
        If a source chunk is damaged; the message names variable and chunk.
    """
    spec, meter = ref.spec(), TaskMeter()
    piles = PileLevel(spec, 0)
    start, stop = piles.level.span(ref.index)
    keys = spec.stream.words(start, stop)
    order = stable_order(keys)
    sorted_keys = keys[order]
    cuts = spec.level_splitters(0).cuts(sorted_keys, order + start)
    every_pile = range(piles.level.piles)
    with one_codec_thread():
        piles.write_keys(ref.index, every_pile, sorted_keys, cuts)
        del sorted_keys
        hasher = row_hasher(spec)
        sums, bytes_read = hasher.zeros(stop - start), 0
        for number, path in enumerate(spec.paths):
            array = open_source_array(spec, path)
            rows = read_source_rows(spec, array, (start, stop), hash_into(hasher, sums, number), meter)
            with meter.part("write"):
                piles.write_rows(path, ref.index, every_pile, rows, order, cuts)
            bytes_read += array.bytes_read
            del rows
    with meter.part("digest"):
        hashes = hasher.finish(sums)
        digests = {"content": content_digest(hashes).hex(), "binding": binding_digest(hashes, keys).hex()}
    return write_record(
        ref,
        {
            "rows": stop - start,
            "counts": np.diff(cuts).tolist(),
            "digests": digests,
            "bytes_read": bytes_read,
            "bytes_written": piles.bytes_written,
            **meter.summary(),
        },
    )


def rescatter_pile(ref: TaskRef) -> dict[str, Any]:
    """Scatter some segments of one parent pile into the piles of the next level, and return the commit record.

    Raises
    ------
    StorageError
        If a segment is damaged or missing.
    """
    spec, meter = ref.spec(), TaskMeter()
    parent, child = PileLevel(spec, ref.depth - 1), PileLevel(spec, ref.depth)
    pile, span = divmod(ref.index, child.level.spans)
    spans = _parent_spans(parent, child, span)
    counts = parent.read_counts()[spans.start : spans.stop, pile]
    first, last = child.level.children(pile)
    with one_codec_thread():
        keys = parent.read_pile(parent.keys, pile, spans, counts)
        order = stable_order(keys)
        sorted_keys = keys[order]
        del keys
        cuts = _cut_children(spec, ref.depth, pile, child.level.span(ref.index), sorted_keys)
        children = range(first, last)
        child.write_keys(span, children, sorted_keys, cuts)
        for path in spec.paths:
            with meter.part("read"):
                rows = parent.read_pile(parent.variable(path), pile, spans, counts)
            with meter.part("write"):
                child.write_rows(path, span, children, rows, order, cuts)
            del rows
    return write_record(
        ref,
        {
            "rows": len(order),
            "first_pile": first,
            "span": span,
            "counts": np.diff(cuts).tolist(),
            "bytes_read": parent.bytes_read,
            "bytes_written": child.bytes_written,
            **meter.summary(),
        },
    )


def _parent_spans(parent: PileLevel, child: PileLevel, span: int) -> range:
    per_span = child.level.span_rows // parent.level.span_rows
    return range(span * per_span, min((span + 1) * per_span, parent.level.spans))


def _cut_children(
    spec: RunSpec, depth: int, pile: int, span: tuple[int, int], sorted_keys: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Return the cuts at the splitters inside one parent pile."""
    level, splitters = spec.plan.levels[depth], spec.level_splitters(depth)
    first, last = level.children(pile)
    inner = Splitters(splitters.keys[first : last - 1], splitters.rows[first : last - 1])
    lower = (int(splitters.keys[first - 1]), int(splitters.rows[first - 1])) if first else (0, 0)
    return cut_keys(sorted_keys, inner, spec.stream, span, lower)
