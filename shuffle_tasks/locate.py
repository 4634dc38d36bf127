"""The plan stage's work on keys: exact pile borders and largest segments, on the workers when n is large.

No data is read: keys are a pure function of the row number.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from shuffle_tasks.graph.execute import Executor
from shuffle_tasks.planning.peaks import project_peaks
from shuffle_tasks.planning.plan import Plan
from shuffle_tasks.randomness import (
    KeyStream,
    Located,
    Pairs,
    Splitters,
    find_splitters,
    finish,
    histogram_bits,
    key_histogram,
    locate,
    max_segment_rows,
    select,
)

DISTRIBUTE_ROWS = 10**8
"""From so many rows, a pass over the keys is spread over the workers."""

PART_ROWS = 2**25
MOST_BITS = 18
"""A histogram travels to the scheduler: 2 MiB."""


def find_borders(plan: Plan, executor: Executor) -> Splitters:
    """Return the splitters between the piles of a plan's last level."""
    stream, n = KeyStream(plan.seed, plan.epoch, bits=plan.key_bits), plan.n
    ranks = np.arange(plan.pile_rows, n, plan.pile_rows, dtype=np.int64)
    if n < DISTRIBUTE_ROWS or executor.slots == 1:
        return find_splitters(stream, n, ranks)
    bits = min(MOST_BITS, histogram_bits(n, len(ranks)))
    histogram = np.zeros(2**bits, np.int64)
    for part in executor.run("histogram", functools.partial(_histogram_part, stream, bits), _parts(n)):
        histogram += part
    located = locate(histogram, ranks)
    return finish(located, executor.run("select", functools.partial(_select_part, stream, located), _parts(n)))


def _parts(n: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + PART_ROWS, n)) for start in range(0, n, PART_ROWS))


def _histogram_part(stream: KeyStream, bits: int, rows: tuple[int, int]) -> NDArray[np.int64]:
    return key_histogram(stream, *rows, bits)


def _select_part(stream: KeyStream, located: Located, rows: tuple[int, int]) -> Pairs:
    return select(stream, *rows, located)


def fit_segments(plan: Plan, splitters: Splitters, executor: Executor) -> Plan:
    """Return the plan with the exact rows of the largest segment of every level, and its peaks."""
    stream, levels = KeyStream(plan.seed, plan.epoch, bits=plan.key_bits), []
    for level in plan.levels:
        step = level.pile_rows // plan.pile_rows
        borders = Splitters(splitters.keys[step - 1 :: step], splitters.rows[step - 1 :: step])
        largest = functools.partial(_largest_segment, stream, plan.n, borders, level.span_rows)
        groups = _task_groups(level.spans, level.span_rows) if plan.n >= DISTRIBUTE_ROWS else [range(level.spans)]
        rows = max(executor.run("segments", largest, groups) if len(groups) > 1 else map(largest, groups), default=1)
        levels.append(dataclasses.replace(level, segment_rows=max(1, rows)))
    peaks = project_peaks(plan.n, plan.variables, levels, plan.pile_rows)
    return dataclasses.replace(plan, levels=tuple(levels), peaks=peaks)


def _task_groups(spans: int, span_rows: int) -> list[range]:
    size = max(1, PART_ROWS // span_rows)
    return [range(at, min(at + size, spans)) for at in range(0, spans, size)]


def _largest_segment(stream: KeyStream, n: int, borders: Splitters, span_rows: int, tasks: range) -> int:
    return max_segment_rows(stream, n, borders, span_rows, tasks)
