"""The projected peak of every stage of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from shuffle_tasks.planning import memory
from shuffle_tasks.planning.levels import Level, expected_segment
from shuffle_tasks.planning.memory import VariableSize


def project_peaks(n: int, variables: Sequence[VariableSize], levels: Sequence[Level], pile_rows: int) -> dict[str, int]:
    """Return the projected peak bytes of data buffers in one worker thread, by stage."""
    if not n:
        return {"plan": memory.FIXED_BYTES, "shuffle": memory.FIXED_BYTES, "verify": memory.FIXED_BYTES}
    peaks = {"plan": memory.PLAN_BYTES, "verify": memory.readback_peak(variables)}
    for depth, level in enumerate(levels):
        if depth == 0:
            peaks["scatter"] = memory.scatter_peak(level.span_rows, level.segment_rows, variables)
            continue
        rows = min(n, expected_segment(n, min(n, level.span_rows), level.parent_rows))
        peak = memory.rescatter_peak(rows, levels[depth - 1].segment_rows, level.segment_rows, variables)
        stage = "combine" if level.pile_rows == level.parent_rows else "scatter"
        peaks[stage] = max(peak, peaks.get(stage, 0))
    if levels:
        peaks["shuffle"] = memory.shuffle_peak(min(pile_rows, n), levels[-1].segment_rows, variables)
    else:
        peaks["shuffle"] = memory.direct_peak(n, variables)
    return peaks
