"""Verify: before the commit from the records, and at any later time by reading the target (and the source) again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_tasks.certificate import (
    MEANINGS,
    Check,
    VerifyReport,
    check_ascending,
    check_target_rows,
    compare,
    sum_digests,
)
from shuffle_tasks.errors import RequestError, StorageError
from shuffle_tasks.measure import TaskMeter
from shuffle_tasks.planning.memory import BLOCK_BYTES
from shuffle_tasks.provenance import read_provenance
from shuffle_tasks.randomness import KeyStream, Permutation
from shuffle_tasks.row_hash import Digest, RowHasher, binding_digest, content_digest, order_digest
from shuffle_tasks.shuffle import open_target_array
from shuffle_tasks.storage import tree
from shuffle_tasks.storage.chunks import ChunkedArray
from shuffle_tasks.storage.objects import LocalObjects
from shuffle_tasks.storage.piles import memory_dtype
from shuffle_tasks.storage.records import committed_records, drop_record, read_record, write_record
from shuffle_tasks.storage.spec import RunSpec, TaskRef


def check_run(spec: RunSpec) -> VerifyReport:
    """Return the certificate of a run whose piles are all written, before its commit.

    Raises
    ------
    StorageError
        If a commit record is missing.
    """
    piles = committed_records(spec, "shuffle", spec.plan.piles)
    before = committed_records(spec, "scatter", spec.plan.scatter_tasks) if spec.plan.levels else piles
    field = "digests" if spec.plan.levels else "source_digests"
    checks = [check_target_rows(piles, spec.plan.n), check_ascending(piles)]
    checks += [
        compare(name, sum_digests(before, name, field), sum_digests(piles, name), MEANINGS[name])
        for name in ("content", "binding")
    ]
    checks.append(check_objects(LocalObjects(spec.target_root), {p: spec.target_nodes[p] for p in spec.paths}))
    return VerifyReport(spec.target_url, tuple(checks))


def check_objects(objects: LocalObjects, nodes: Mapping[str, Mapping[str, Any]]) -> Check:
    """Return the check that every stored object of these arrays is present."""
    present = 0
    for path, documents in nodes.items():
        for key in tree.object_keys(path, documents):
            if not objects.exists(key):
                return Check("objects", False, f"object {key!r} of {objects.root} is missing")
            present += 1
    return Check("objects", True, f"{present} objects present")


def drop_incomplete_piles(spec: RunSpec) -> str:
    """Forget the shuffle tasks whose target objects are not all there, and return what is missing, or ""."""
    objects, arrays, lost = LocalObjects(spec.target_root), [open_target_array(spec, path) for path in spec.paths], ""
    for pile in range(spec.plan.piles):
        keys = (key for array in arrays for key in array.keys(*spec.plan.pile_span(pile)))
        missing = next((key for key in keys if not objects.exists(key)), None)
        if missing is not None:
            lost = lost or f"object {missing!r} of {spec.target_root} is missing"
            drop_record(spec, "shuffle", pile)
    return lost


def run_digests(spec: RunSpec) -> dict[str, str]:
    """Return the digests of a verified run."""
    piles = committed_records(spec, "shuffle", spec.plan.piles)
    return {name: sum_digests(piles, name).hex() for name in ("content", "binding", "order")}


def read_back_pile(ref: TaskRef) -> dict[str, Any]:
    """Read the target rows of one pile again, compare them with what was written, and return the commit record.

    Raises
    ------
    StorageError
        If they differ, or a chunk cannot be read.
    """
    spec, meter = ref.spec(), TaskMeter()
    written = read_record(spec, "shuffle", ref.index)
    if written is None:
        raise StorageError(f"pile {ref.index} has no commit record: run the same command again")
    start, stop = spec.plan.pile_span(ref.index)
    arrays = [open_target_array(spec, path) for path in spec.paths]
    totals = {"content": Digest.zero(), "order": Digest.zero()}
    for first, hashes in hash_rows(arrays, start, stop):
        totals["content"] += content_digest(hashes)
        totals["order"] += order_digest(hashes, first)
    for name, digest in totals.items():
        check = compare(name, Digest.from_hex(written["digests"][name]), digest, MEANINGS[name])
        if not check.ok:
            drop_record(spec, "shuffle", ref.index)
            raise StorageError(
                f"the target rows [{start}, {stop}) read back differ from what was written; "
                f"{check.name}: {check.detail}"
            )
    return write_record(ref, {"bytes_read": sum(a.bytes_read for a in arrays), "bytes_written": 0, **meter.summary()})


def hash_rows(arrays: list[ChunkedArray], start: int, stop: int) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """Yield (first row, row hashes) of consecutive blocks of the rows [start, stop), in bounded memory."""
    dtypes = [array.dtype.newbyteorder("=") for array in arrays]
    sizes = [d.itemsize * int(np.prod(a.shape[1:], dtype=np.int64)) for d, a in zip(dtypes, arrays, strict=True)]
    hasher = RowHasher(sizes)
    unit = arrays[int(np.argmax(sizes))].object_rows
    step = unit * max(1, BLOCK_BYTES // (unit * max(*sizes, 32)))
    for first in range(start, stop, step):
        last = min(first + step, stop)
        sums = hasher.zeros(last - first)
        for number, array in enumerate(arrays):
            rows = np.empty((last - first, *array.shape[1:]), dtypes[number])
            array.read_rows(first, last, rows)
            hasher.add(sums, number, rows)
        yield first, hasher.finish(sums)


def verify(target: str | os.PathLike[str], source: str | os.PathLike[str] | None = None) -> VerifyReport:
    """Read a target again and compare it with its provenance record, and with its source if that is given.

    Parameters
    ----------
    target
        A committed target.
    source
        The dataset that it was made from.

    Returns
    -------
    VerifyReport
        Its checks; a check that fails names what is wrong.

    Raises
    ------
    RequestError
        If the target has no provenance record, or the source is missing.
    """
    path = os.path.abspath(target)
    record = read_provenance(path)
    checks = [*_check_target(path, record)]
    if source is not None:
        checks += _check_source(os.path.abspath(source), record)
    return VerifyReport(path, tuple(checks))


def _open_arrays(
    path: str, record: Mapping[str, Any], *, strict: bool
) -> tuple[list[ChunkedArray], dict[str, Any], Check]:
    objects, n = LocalObjects(path), record["n"]
    nodes = {name: tree.node_documents(objects, name) for name in record["variables"]}
    for name, documents in nodes.items():
        rows = (
            tree.shape_of(documents)[0] if documents and tree.is_array(documents) and tree.shape_of(documents) else None
        )
        if rows != n:
            found = "is missing" if rows is None else f"has {rows} rows"
            return (
                [],
                nodes,
                Check("variables", False, f"array {name or '(root)'!r} of {path} {found}, the record says {n} rows"),
            )
    arrays = [ChunkedArray(objects, name, documents, strict=strict) for name, documents in nodes.items()]
    expected = [v["row_bytes"] for v in record["plan"]["variables"]]
    for array, row_bytes in zip(arrays, expected, strict=True):
        found_bytes = memory_dtype(nodes[array.path]).itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
        if found_bytes != row_bytes:
            return (
                [],
                nodes,
                Check(
                    "variables", False, f"rows of {array.path!r} have {found_bytes} bytes, the record says {row_bytes}"
                ),
            )
    return arrays, nodes, Check("variables", True, f"{len(arrays)} variables of {n} rows")


def _check_target(path: str, record: Mapping[str, Any]) -> Iterator[Check]:
    arrays, nodes, opened = _open_arrays(path, record, strict=True)
    yield opened
    if not opened.ok:
        return
    present = check_objects(LocalObjects(path), nodes)
    yield present
    if not present.ok:
        return
    order = Permutation(record["n"], record["seed"], record["epoch"])
    totals = dict.fromkeys(("content", "binding", "order"), Digest.zero())
    try:
        for first, hashes, keys in _with_keys(arrays, order):
            totals["content"] += content_digest(hashes)
            totals["binding"] += binding_digest(hashes, keys)
            totals["order"] += order_digest(hashes, first)
    except StorageError as error:
        yield Check("readable", False, str(error))
        return
    yield Check("readable", True, "every chunk could be decoded")
    for name, digest in totals.items():
        yield compare(name, Digest.from_hex(record["digests"][name]), digest, MEANINGS[name])


def _with_keys(
    arrays: list[ChunkedArray], order: Permutation
) -> Iterator[tuple[int, NDArray[np.uint64], NDArray[np.uint64]]]:
    """Yield (first row, row hashes, keys) of the target: its rows have the keys of all rows in ascending order."""
    at, keys = 0, np.empty(0, np.uint64)
    pieces = order.iter_sorted_keys(2**18)
    for first, hashes in hash_rows(arrays, 0, order.n):
        waiting = [keys[at:]]
        while sum(map(len, waiting)) < len(hashes):
            waiting.append(next(pieces))
        keys, at = np.concatenate(waiting), len(hashes)
        yield first, hashes, keys[:at]


def _check_source(path: str, record: Mapping[str, Any]) -> Iterator[Check]:
    if not os.path.isdir(path):
        raise RequestError(f"the source {path} does not exist")
    arrays, _, opened = _open_arrays(path, record, strict=False)
    yield Check("source variables", opened.ok, opened.detail)
    if not opened.ok:
        return
    stream = KeyStream(record["seed"], record["epoch"])
    totals = {"content": Digest.zero(), "binding": Digest.zero()}
    try:
        for first, hashes in hash_rows(arrays, 0, record["n"]):
            totals["content"] += content_digest(hashes)
            totals["binding"] += binding_digest(hashes, stream.words(first, first + len(hashes)))
    except StorageError as error:
        yield Check("source readable", False, str(error))
        return
    for name, digest in totals.items():
        yield compare(
            f"source {name}",
            Digest.from_hex(record["digests"][name]),
            digest,
            f"the source is not what was shuffled: {MEANINGS[name]}",
        )
