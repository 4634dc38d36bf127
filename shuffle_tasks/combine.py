"""Combine: prove from the commit records that every source row is in exactly one pile, and index the piles.

Only records are read, found by their expected names; a missing one is an error and never an empty pile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_tasks.errors import CertificateError
from shuffle_tasks.planning.levels import Level
from shuffle_tasks.storage.piles import PileLevel
from shuffle_tasks.storage.records import committed_records, stage_name
from shuffle_tasks.storage.spec import RunSpec


def combine_level(spec: RunSpec, depth: int) -> NDArray[np.int64]:
    """Check the records of one level, write its index, and return it.

    Returns
    -------
    ndarray of int64, shape (spans, piles)
        Rows of every segment.

    Raises
    ------
    StorageError
        If a record is missing.
    CertificateError
        If a row is missing from the piles or in them twice: a task's or a pile's rows are not what the plan says.
    """
    level = spec.plan.levels[depth]
    records = committed_records(spec, stage_name(depth, spec.plan), level.tasks)
    counts = _counts(level, records)
    _check_tasks(level, records)
    _check_piles(level, counts)
    PileLevel(spec, depth).write_counts(counts)
    return counts


def _counts(level: Level, records: list[dict[str, Any]]) -> NDArray[np.int64]:
    counts = np.zeros((level.spans, level.piles), np.int64)
    for index, record in enumerate(records):
        parent, span = divmod(index, level.spans)
        first, last = level.children(parent)
        counts[span, first:last] = record["counts"]
    return counts


def _check_tasks(level: Level, records: list[dict[str, Any]]) -> None:
    for index, record in enumerate(records):
        rows, parts = int(record["rows"]), int(sum(record["counts"]))
        start, stop = level.span(index)
        if rows != parts or (level.parents == 1 and rows != stop - start):
            raise CertificateError(
                f"task {index} of source rows [{start}, {stop}) recorded {rows} rows and put {parts} "
                "into piles: rows were lost or repeated"
            )


def _check_piles(level: Level, counts: NDArray[np.int64]) -> None:
    sizes = counts.sum(axis=0)
    for pile in np.flatnonzero(sizes != [level.pile_size(pile) for pile in range(level.piles)]).tolist():
        raise CertificateError(
            f"pile {pile} holds {sizes[pile]} rows, and the plan says {level.pile_size(pile)}: "
            "rows were lost, repeated or misplaced"
        )
