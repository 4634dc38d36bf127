"""Choose how many scatter levels there are, and the rows of a task and of a pile at each, from the memory of a worker.

A level cuts the n rows twice: by source row into spans of `span_rows` (one task a span and parent pile), and by key
into piles of `pile_rows`. Its segments are the crossings, about span_rows · pile_rows / n rows each:

    level 1   source rows  →  spans of T1,  piles of R1
    level 2   piles of R1  →  spans of T2 = q · T1,  piles of R2 = R1 / G          (only when level 1 alone makes tiny
    segments) shuffle   piles of R2  →  target

A span of level l is whole spans of level l - 1, so segments stay in source-row order and a stable merge keeps ties in
the order of the definition. Physical consolidation is the special case of one span over everything and unchanged piles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shuffle_tasks.errors import RequestError
from shuffle_tasks.planning import memory
from shuffle_tasks.planning.memory import VariableSize
from shuffle_tasks.planning.sizes import format_bytes

SMALL_SEGMENT_BYTES = 10**6
"""Below this, the cost of opening a chunk dominates the cost of its bytes."""

TINY_SEGMENT_BYTES = SMALL_SEGMENT_BYTES // 8
"""When no number of levels makes large segments, another level pays only while segments are smaller than this."""

MANY_SEGMENTS = 4096
"""Up to this many segments a single level is taken even when they are small."""

DIRECT_BYTES = 256 * 2**20
"""With several workers, more data than this takes two passes even when it fits one of them: one task uses one core."""


@dataclass(frozen=True, slots=True)
class Level:
    """One scatter level over `n` rows; see the module."""

    n: int
    span_rows: int
    pile_rows: int
    parent_rows: int
    segment_rows: int

    @property
    def spans(self) -> int:
        """Tasks a parent pile; the first axis of the level's piles."""
        return -(-self.n // self.span_rows)

    @property
    def piles(self) -> int:
        """Piles over the whole dataset; the second axis of the level's piles."""
        return -(-self.n // self.pile_rows)

    @property
    def parents(self) -> int:
        """Piles of the level above (1 above the first)."""
        return -(-self.n // self.parent_rows)

    @property
    def tasks(self) -> int:
        """Tasks of this level."""
        return self.parents * self.spans

    def span(self, task: int) -> tuple[int, int]:
        """Return the source rows [start, stop) of a task."""
        start = (task % self.spans) * self.span_rows
        return start, min(start + self.span_rows, self.n)

    def children(self, parent: int) -> tuple[int, int]:
        """Return the piles [first, last) that lie in a parent pile."""
        per_parent = self.parent_rows // self.pile_rows if self.parents > 1 else self.piles
        return parent * per_parent, min((parent + 1) * per_parent, self.piles)

    def parent_of(self, pile: int) -> int:
        """Return the parent pile that a pile lies in."""
        return pile * self.pile_rows // self.parent_rows if self.parents > 1 else 0

    def pile_size(self, pile: int) -> int:
        """Return the exact rows of a pile."""
        return min(self.pile_rows, self.n - pile * self.pile_rows)


def ceil_div(count: int, size: int) -> int:
    """Return how many parts of `size` hold `count`."""
    return -(-count // size)


def expected_segment(n: int, span_rows: int, pile_rows: int) -> int:
    """Return a bound on the rows of a segment: the hypergeometric mean and six standard deviations.

    The exact maximum is known once the splitters are; this is for planning.
    """
    mean = span_rows * pile_rows / max(n, 1)
    return min(span_rows, pile_rows, math.ceil(mean + 6 * math.sqrt(mean)) + 1)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the caller fixes (None = choose): rows a pile, source rows a scatter task, number of levels."""

    pile_rows: int | None = None
    scatter_rows: int | None = None
    levels: int | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """What the choice depends on.

    Attributes
    ----------
    n : int
        Rows.
    variables : tuple of VariableSize
        Their sizes.
    budget : int
        Bytes of data buffers of one worker thread.
    slots : int
        Worker threads.
    unit : int
        A pile is a multiple of this many rows (whole target objects).
    steps : tuple of int
        A span is a multiple of the first of these that fits (whole source objects of all variables, of the widest, or
        readable pieces of the widest).
    """

    n: int
    variables: tuple[VariableSize, ...]
    budget: int
    slots: int
    unit: int
    steps: tuple[int, ...]

    def shuffle_peak(self, rows: int) -> int:
        """Return the peak of shuffling a pile of `rows` rows, or of consolidating it."""
        rows = min(rows, self.n)
        consolidating = memory.rescatter_peak(rows, rows, rows, self.variables)
        return max(consolidating, memory.shuffle_peak(rows, rows, self.variables))

    def scatter_peak(self, rows: int) -> int:
        """Return the peak of scattering `rows` rows, of the source or of one of its segments."""
        rows = min(rows, self.n)
        again = memory.rescatter_peak(rows, rows, rows, self.variables)
        return max(again, memory.scatter_peak(rows, rows, self.variables))

    def least_bytes(self, fixed: Sizes) -> int:
        """Return the smallest budget for which a plan exists."""
        direct = memory.direct_peak(self.n, self.variables)
        if fixed.levels == 0:
            return direct
        passes = max(
            self.shuffle_peak(fixed.pile_rows or self.unit), self.scatter_peak(fixed.scatter_rows or self.steps[-1])
        )
        return passes if fixed.levels or fixed.scatter_rows or fixed.pile_rows else min(direct, passes)


def choose_levels(work: Workload, fixed: Sizes) -> tuple[Level, ...]:
    """Return the scatter levels, () for a shuffle in memory.

    Raises
    ------
    RequestError
        If nothing fits; the message names the least memory that would do.
    """
    least = work.least_bytes(fixed)
    if least > work.budget:
        raise RequestError(
            f"the memory is too small: the plan needs at least {format_bytes(least)} a worker, and a worker has "
            f"{format_bytes(work.budget)}; the least that would do for {work.slots} workers is --memory "
            f"{-(-least * work.slots // 2**20)}MiB (or fewer workers, or smaller target chunks)"
        )
    if fixed.levels == 0 or (fixed.levels is None and _is_direct(work, fixed)):
        return ()
    if fixed.levels:
        return build_levels(work, fixed, fixed.levels)
    options = [build_levels(work, fixed, count) for count in (1, 2, 3)]
    for levels in options:
        if (
            levels[0].spans * levels[0].piles <= MANY_SEGMENTS
            or smallest_segment(levels, work.variables) >= SMALL_SEGMENT_BYTES
        ):
            return levels
    return next(
        (levels for levels in options if smallest_segment(levels, work.variables) >= TINY_SEGMENT_BYTES), options[-1]
    )


def _is_direct(work: Workload, fixed: Sizes) -> bool:
    if fixed.scatter_rows or (fixed.pile_rows or work.n) < work.n:
        return False
    if memory.direct_peak(work.n, work.variables) > work.budget:
        return False
    two_passes_fit = work.least_bytes(Sizes(levels=1)) <= work.budget
    small = work.n * sum(v.row_bytes for v in work.variables) <= DIRECT_BYTES
    return work.slots == 1 or small or not two_passes_fit


def smallest_segment(levels: Sequence[Level], variables: Sequence[VariableSize]) -> float:
    """Return the mean bytes of a segment over all variables and the keys, at the level where it is smallest."""
    row_bytes = 8 + sum(v.row_bytes for v in variables)
    return min(level.span_rows * level.pile_rows / max(level.n, 1) * row_bytes for level in levels)


def build_levels(work: Workload, fixed: Sizes, count: int) -> tuple[Level, ...]:
    """Return exactly `count` levels of the largest tasks that fit the budget."""
    n, pile_rows, span_rows = work.n, _pile_rows(work, fixed), _span_rows(work, fixed)
    fan_out = max(1, math.ceil((-(-n // pile_rows)) ** (1 / count)))
    levels: list[Level] = []
    for depth in range(count):
        rows = min(pile_rows * fan_out ** (count - 1 - depth), -(-n // pile_rows) * pile_rows)
        parent = levels[-1] if levels else None
        span = span_rows if parent is None else _deeper_span(parent, work)
        levels.append(Level(n, span, rows, parent.pile_rows if parent else n, expected_segment(n, span, rows)))
    return tuple(levels)


def _deeper_span(parent: Level, work: Workload) -> int:
    """Return the largest whole number of parent spans whose rows in one parent pile fit the budget."""

    def fits(spans: int) -> bool:
        rows = expected_segment(work.n, min(work.n, spans * parent.span_rows), parent.pile_rows)
        return memory.rescatter_peak(rows, parent.segment_rows, rows, work.variables) <= work.budget

    return _largest(1, parent.spans, 1, fits) * parent.span_rows


def _largest(low: int, high: int, step: int, fits: Callable[[int], bool]) -> int:
    """Return the largest multiple of `step` in [low, high] for which `fits` holds, `low` if none does."""
    first, last = low // step, high // step
    while first < last:
        middle = (first + last + 1) // 2
        first, last = (middle, last) if fits(middle * step) else (first, middle - 1)
    return first * step


def _pile_rows(work: Workload, fixed: Sizes) -> int:
    top = -(-work.n // work.unit) * work.unit
    if fixed.pile_rows is not None:
        return min(top, -(-fixed.pile_rows // work.unit) * work.unit)
    rows = _largest(work.unit, top, work.unit, lambda r: work.shuffle_peak(r) <= work.budget)
    return _even(work.n, rows, work.unit, work.slots)


def _span_rows(work: Workload, fixed: Sizes) -> int:
    if fixed.scatter_rows is not None:
        return min(work.n, fixed.scatter_rows)
    step = next((s for s in work.steps if work.scatter_peak(s) <= work.budget), work.steps[-1])
    rows = _largest(step, -(-work.n // step) * step, step, lambda r: work.scatter_peak(r) <= work.budget)
    return min(work.n, _even(work.n, rows, step, work.slots))


def _even(n: int, rows: int, step: int, slots: int) -> int:
    """Return at most `rows`, a multiple of `step`, so that the parts are even and busy all slots in whole rounds."""
    rounds = ceil_div(ceil_div(n, rows), slots) * slots
    even = ceil_div(n, rounds * step) * step
    return min(rows, max(step, even))
