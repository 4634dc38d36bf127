"""Row units: of which rows tasks and piles are multiples, so that stored objects are read whole and have one writer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shuffle_tasks.planning.facts import ArrayFacts
from shuffle_tasks.planning.memory import VariableSize, shuffle_peak


def variable_size(source: ArrayFacts, target: ArrayFacts) -> VariableSize:
    """Return the sizes of a variable from its facts in the source and in the target."""
    row_cells = math.prod(source.object_shape[1:]) or 1
    return VariableSize(
        path=source.path,
        row_bytes=source.row_bytes,
        read_rows=source.read_rows,
        read_bytes=source.read_rows * row_cells * source.itemsize,
        source_rows=source.object_rows,
        unit_rows=target.object_rows,
        unit_copies=3 if target.read_rows == target.object_rows else 4,
    )


def common_unit(
    n: int, variables: Sequence[VariableSize], budget: int, pile_rows: int | None = None
) -> tuple[int, tuple[str, ...]]:
    """Return the rows of which a pile is a multiple, and a note if not every variable can keep its chunk rows.

    The least common multiple of the target objects' rows; when that is too large for the memory, the rows of the widest
    variable's objects (the others then take a divisor of the pile, `fitting_rows`).
    """
    least = math.lcm(*(v.unit_rows for v in variables))
    widest = max(variables, key=lambda v: v.row_bytes * v.unit_rows)
    rows = min(least, n)
    fits = rows <= max(pile_rows, widest.unit_rows) if pile_rows else shuffle_peak(rows, rows, variables) <= budget
    if least == widest.unit_rows or fits:
        return least, ()
    return widest.unit_rows, (
        (
            f"the chunk rows {sorted({v.unit_rows for v in variables})} have the common multiple {least}, too large "
            f"for a pile: piles are multiples of {widest.unit_rows} rows ({widest.path or 'the array'}), and the other "
            "variables get chunk rows that divide them"
        ),
    )


def fitting_rows(pile_rows: int, wanted: int, n: int) -> int:
    """Return the divisor of `pile_rows` to take for the chunk rows of a variable that would like `wanted`.

    The largest one not above, unless that makes more than four times the chunks and the smallest one above is not four
    times as large; `wanted` itself if one pile holds everything.
    """
    if pile_rows >= n or pile_rows % wanted == 0:
        return wanted
    low = [d for d in range(1, math.isqrt(pile_rows) + 1) if pile_rows % d == 0]
    divisors = {*low, *(pile_rows // d for d in low)}
    below, above = max(d for d in divisors if d < wanted), min((d for d in divisors if d > wanted), default=pile_rows)
    return above if 4 * below < wanted and above <= 4 * wanted else below


def span_steps(n: int, variables: Sequence[VariableSize]) -> tuple[int, ...]:
    """Return the rows of which a span may be a multiple, best first: objects of all, of the widest, its pieces."""
    widest = max(variables, key=lambda v: v.row_bytes * v.read_rows)
    steps = (math.lcm(*(v.source_rows for v in variables)), widest.source_rows, widest.read_rows)
    return tuple(dict.fromkeys(max(1, min(step, max(n, 1))) for step in steps))
