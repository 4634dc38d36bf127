"""The plan: every number of a run, decided from metadata before any data is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from shuffle_tasks.planning.facts import ArrayFacts, SourceFacts
from shuffle_tasks.planning.levels import (
    SMALL_SEGMENT_BYTES,
    Level,
    Sizes,
    Workload,
    choose_levels,
    smallest_segment,
)
from shuffle_tasks.planning.memory import VariableSize
from shuffle_tasks.planning.peaks import project_peaks
from shuffle_tasks.planning.units import common_unit, span_steps, variable_size

PLAN_VERSION = 1
PILE_EXPANSION = 1.4
"""Piles are compressed faster and less than a typical source: bound on their bytes against its stored bytes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The numbers of one run.

    Attributes
    ----------
    n, row_bytes, stored_bytes : int
        Rows, decoded bytes of a row over all variables, and stored bytes of the source.
    seed, epoch, key_bits : int
        The order; `key_bits` < 64 is a test hook that makes ties common.
    slots, budget : int
        Worker threads, and bytes of data buffers of each.
    variables : tuple of VariableSize
        Sizes by variable, in the order of the row hash.
    pile_rows : int
        Rows of a pile (of the target, for a shuffle in memory).
    levels : tuple of Level
        Scatter levels; () is a shuffle in memory.
    consolidation : str
        "index", "physical" or "none" (in memory).
    peaks : mapping
        Stage → projected peak bytes of data buffers in one worker thread.
    temporary_bytes, target_bytes : int
        Disk for the piles at their peak, and for the target, estimated from the source's stored bytes.
    limits : str
        What limits the plan, in words.
    notes : tuple of str
        What a user should know.
    """

    n: int
    row_bytes: int
    stored_bytes: int
    seed: int
    epoch: int
    key_bits: int
    slots: int
    budget: int
    variables: tuple[VariableSize, ...]
    pile_rows: int
    levels: tuple[Level, ...]
    consolidation: str
    peaks: Mapping[str, int]
    temporary_bytes: int
    target_bytes: int
    limits: str
    notes: tuple[str, ...]

    @property
    def piles(self) -> int:
        """Piles of the last level: tasks of the shuffle stage."""
        return -(-self.n // self.pile_rows) if self.n else 0

    @property
    def scatter_tasks(self) -> int:
        """Tasks of the first level."""
        return self.levels[0].tasks if self.levels else 0

    @property
    def scatter_levels(self) -> int:
        """Scatter levels, physical consolidation not counted."""
        return len(self.levels) - (self.consolidation == "physical")

    @property
    def segment_bytes(self) -> int:
        """Mean decoded bytes of a segment with its keys, at the level where it is smallest."""
        scatter = self.levels[: self.scatter_levels]
        return int(smallest_segment(scatter, self.variables)) if scatter and self.n else 0

    def pile_span(self, pile: int) -> tuple[int, int]:
        """Return the target rows [start, stop) of a pile."""
        return pile * self.pile_rows, min((pile + 1) * self.pile_rows, self.n)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values, with the derived numbers that people look for."""
        passes = 1 + len(self.levels)
        return asdict(self) | {
            "version": PLAN_VERSION,
            "levels": len(self.levels) and self.scatter_levels,
            "level_table": [asdict(level) | {"spans": level.spans, "piles": level.piles} for level in self.levels],
            "rows": self.n,
            "bytes": self.n * self.row_bytes,
            "scatter_tasks": self.scatter_tasks,
            "scatter_rows": self.levels[0].span_rows if self.levels else self.n,
            "piles": self.piles,
            "tasks": sum(level.tasks for level in self.levels) + self.piles,
            "segment_bytes": self.segment_bytes,
            "segments": sum(level.spans * level.piles for level in self.levels),
            "bytes_to_read": self.stored_bytes
            + (passes - 1) * _pile_estimate(self.n, self.row_bytes, self.stored_bytes),
            "bytes_to_write": self.target_bytes
            + (passes - 1) * _pile_estimate(self.n, self.row_bytes, self.stored_bytes),
        }

    def _repr_html_(self) -> str:
        value = self.to_dict()
        names = (
            "rows",
            "bytes",
            "scatter_tasks",
            "piles",
            "pile_rows",
            "levels",
            "segment_bytes",
            "consolidation",
            "slots",
            "budget",
            "temporary_bytes",
            "target_bytes",
            "bytes_to_read",
            "bytes_to_write",
            "limits",
        )
        facts = {name.replace("_", " "): value[name] for name in names}
        facts |= {f"peak of {stage}, bytes a worker": peak for stage, peak in self.peaks.items()}
        rows = "".join(
            f"<tr><th>{escape(k)}</th><td>{v:,}</td></tr>"
            if isinstance(v, int)
            else f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>"
            for k, v in facts.items()
        )
        return f"<table><caption>pileshuffle plan</caption>{rows}</table>"


def plan_from_dict(value: Mapping[str, Any]) -> Plan:
    """Return the plan that `Plan.to_dict` described."""
    fields = {name: value[name] for name in Plan.__slots__}
    level_fields = tuple(Level.__slots__)
    fields["levels"] = tuple(Level(**{name: row[name] for name in level_fields}) for row in value["level_table"])
    fields["variables"] = tuple(VariableSize(**row) for row in value["variables"])
    fields["notes"] = tuple(value["notes"])
    return Plan(**fields)


def _pile_estimate(n: int, row_bytes: int, stored_bytes: int) -> int:
    """Return the stored bytes of all rows in piles: compressed, never more than decoded, and the keys."""
    return min(int(stored_bytes * PILE_EXPANSION), n * row_bytes + n * row_bytes // 100) + 8 * n


def build_plan(
    source: SourceFacts,
    target: Sequence[ArrayFacts],
    *,
    seed: int,
    epoch: int,
    budget: int,
    slots: int,
    fixed: Sizes,
    target_bytes: int,
    keep_piles: bool = False,
    key_bits: int = 64,
    notes: tuple[str, ...] = (),
) -> Plan:
    """Return the plan for a source and the layout of its target.

    Parameters
    ----------
    source
        Facts of the source.
    target
        Facts of the target's arrays, in the order of `source.rows`.
    seed, epoch, key_bits
        The order.
    budget
        Bytes of data buffers of one worker thread.
    slots
        Worker threads.
    fixed
        What the caller fixes.
    target_bytes
        Estimated stored bytes of the target.
    keep_piles
        Piles are wanted: never shuffle in memory.
    notes
        What a user should know, so far.

    Raises
    ------
    RequestError
        If no plan fits the memory; the message names the least that would do.
    """
    variables = tuple(variable_size(s, t) for s, t in zip(source.rows, target, strict=True))
    unit, more = common_unit(source.n, variables, budget, fixed.pile_rows)
    work = Workload(source.n, variables, budget, slots, unit, span_steps(source.n, variables))
    fixed = Sizes(fixed.pile_rows, fixed.scatter_rows, fixed.levels or 1) if keep_piles and source.n else fixed
    levels = choose_levels(work, fixed) if source.n else ()
    levels, consolidation = _consolidate(levels, variables)
    pile_rows = levels[-1].pile_rows if levels else max(1, -(-source.n // unit) * unit)
    return Plan(
        n=source.n,
        row_bytes=source.row_bytes,
        stored_bytes=source.stored_bytes,
        seed=seed,
        epoch=epoch,
        key_bits=key_bits,
        slots=slots,
        budget=budget,
        variables=variables,
        pile_rows=pile_rows,
        levels=levels,
        consolidation=consolidation,
        peaks=project_peaks(source.n, variables, levels, pile_rows),
        temporary_bytes=min(len(levels), 2) * _pile_estimate(source.n, source.row_bytes, source.stored_bytes),
        target_bytes=target_bytes,
        limits=_limits(work, levels, fixed),
        notes=notes + more,
    )


def _consolidate(levels: tuple[Level, ...], variables: Sequence[VariableSize]) -> tuple[tuple[Level, ...], str]:
    """Add physical consolidation behind levels whose segments are small."""
    if not levels:
        return levels, "none"
    last = levels[-1]
    if last.spans == 1 or smallest_segment(levels[-1:], variables) >= SMALL_SEGMENT_BYTES:
        return levels, "index"
    whole = -(-last.n // last.span_rows) * last.span_rows
    return (*levels, Level(last.n, whole, last.pile_rows, last.pile_rows, last.pile_rows)), "physical"


def _limits(work: Workload, levels: Sequence[Level], fixed: Sizes) -> str:
    if fixed.pile_rows or fixed.scatter_rows or fixed.levels:
        return "sizes fixed by the request"
    if not levels:
        return "nothing: all rows fit in the memory of one worker"
    last = levels[-1]
    if last.pile_rows == work.unit:
        return "the target's chunk (or shard) rows: a pile is one of them"
    if work.slots > 1 and work.shuffle_peak(last.pile_rows + work.unit) <= work.budget:
        return "the number of workers: piles are cut evenly over them"
    return "memory: a pile fills a worker's share"
