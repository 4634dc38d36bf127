"""The pure planner: how rows are cut into spans and piles, and what fits the memory."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from shuffle_tasks import Plan, RequestError
from shuffle_tasks.planning.facts import ArrayFacts, SourceFacts
from shuffle_tasks.planning.levels import SMALL_SEGMENT_BYTES, Level, Sizes
from shuffle_tasks.planning.plan import build_plan, plan_from_dict
from shuffle_tasks.planning.sizes import parse_bytes
from shuffle_tasks.planning.units import common_unit, fitting_rows, variable_size

moderate = settings(deadline=None, database=None, derandomize=True, max_examples=150)
WORKING = ("scatter", "combine", "shuffle")
MIB = 2**20


def array_of(path: str, n: int, row_bytes: int, object_rows: int, read_rows: int | None = None) -> ArrayFacts:
    """Return the facts of an array of bytes, in objects of whole rows."""
    return ArrayFacts(
        path=path,
        dtype="|u1",
        itemsize=1,
        row_shape=(row_bytes,),
        object_shape=(object_rows, row_bytes),
        read_rows=read_rows or object_rows,
        length=n,
        stored_bytes=n * row_bytes,
    )


def source_of(arrays: list[ArrayFacts]) -> SourceFacts:
    """Return the facts of a source with these arrays."""
    return SourceFacts("/in.zarr", "group", 3, arrays[0].length, "row", tuple(arrays), (), 0, {})


def plan_of(arrays: list[ArrayFacts], budget: int, slots: int = 1, fixed: Sizes | None = None) -> Plan:
    """Return the plan with so many bytes a worker."""
    return build_plan(
        source_of(arrays), arrays, seed=0, epoch=0, budget=budget, slots=slots, fixed=fixed or Sizes(), target_bytes=1
    )


@st.composite
def sources(draw: st.DrawFn) -> list[ArrayFacts]:
    """Draw one to three arrays of up to 10^9 rows."""
    n = draw(st.integers(1, 50) | st.integers(1, 10**6) | st.integers(1, 10**9))
    arrays = []
    for number in range(draw(st.integers(1, 3))):
        read = draw(st.sampled_from([1, 100, 256, 1000, 1024, 4096]) | st.integers(1, 5000))
        shards = draw(st.sampled_from([1, 1, 1, 8]))
        arrays.append(array_of(f"v{number}", n, draw(st.integers(1, 16) | st.integers(1, 20000)), read * shards, read))
    return arrays


fixed_sizes = st.builds(
    Sizes,
    st.none() | st.integers(1, 10**6),
    st.none() | st.integers(1, 10**6),
    st.sampled_from([None, None, 0, 1, 2, 3]),
)
budgets = st.integers(30, 16_000).map(lambda mebibytes: mebibytes * MIB)


def assert_cover(level: Level) -> None:
    """Check that spans and piles cover all rows, each once."""
    sizes = [level.pile_size(pile) for pile in {0, level.piles // 2, level.piles - 1}]
    assert all(0 < size <= level.pile_rows for size in sizes)
    assert (level.piles - 1) * level.pile_rows + level.pile_size(level.piles - 1) == level.n
    assert level.span(0)[0] == 0
    assert level.span(level.spans - 1)[1] == level.n
    assert all(
        level.span(task)[1] == level.span(task + 1)[0] for task in {0, level.spans // 2} if task + 1 < level.spans
    )
    assert level.children(0)[0] == 0
    assert level.children(level.parents - 1)[1] == level.piles
    assert all(
        level.children(p)[1] == level.children(p + 1)[0] for p in {0, level.parents // 2} if p + 1 < level.parents
    )
    assert level.tasks == level.spans * level.parents


@moderate
@given(sources(), budgets, st.integers(1, 8), fixed_sizes)
def test_levels_nest_and_cover_all_rows(arrays: list[ArrayFacts], budget: int, slots: int, fixed: Sizes) -> None:
    """Spans of a level are whole spans of the one above, piles are whole parts of its piles, and no row is left out."""
    try:
        plan = plan_of(arrays, budget, slots, fixed)
    except RequestError:
        assume(False)
    unit, _ = common_unit(plan.n, plan.variables, budget, fixed.pile_rows)
    assert plan.pile_rows % unit == 0
    assert plan.pile_span(plan.piles - 1)[1] == plan.n
    for depth, level in enumerate(plan.levels):
        assert_cover(level)
        above = plan.levels[depth - 1] if depth else None
        assert level.parent_rows == (above.pile_rows if above else plan.n)
        if above:
            assert above.pile_rows % level.pile_rows == 0 or above.piles == 1
            assert level.span_rows % above.span_rows == 0
        assert level.pile_rows % plan.pile_rows == 0
    assert plan.levels == () or plan.levels[-1].pile_rows == plan.pile_rows
    if fixed.levels is not None:
        assert plan.scatter_levels == fixed.levels
    assert plan_from_dict(plan.to_dict()) == plan


@moderate
@given(sources(), budgets, st.integers(1, 8))
def test_an_accepted_plan_fits_the_memory(arrays: list[ArrayFacts], budget: int, slots: int) -> None:
    """The projected peak of every working stage is within the memory of a worker, whatever the sizes."""
    try:
        plan = plan_of(arrays, budget, slots)
    except RequestError:
        assume(False)
    assert {name: peak for name, peak in plan.peaks.items() if name in WORKING and peak > budget} == {}


@moderate
@example([array_of("x", 262145, 1, 1000), array_of("y", 262145, 1, 4096)], 1, Sizes(), 1)
@given(sources(), st.integers(1, 8), fixed_sizes, st.integers(1, 4000))
def test_a_refusal_names_what_would_do(arrays: list[ArrayFacts], slots: int, fixed: Sizes, mebibytes: int) -> None:
    """With the amount that a refusal names there is a plan."""
    try:
        plan_of(arrays, mebibytes * MIB // slots, slots, fixed)
    except RequestError as error:
        (amount,) = re.findall(r"--memory ([0-9]+MiB)", str(error))
        assert parse_bytes(amount) > mebibytes * MIB
        plan_of(arrays, parse_bytes(amount) // slots, slots, fixed)


@moderate
@given(sources(), budgets, st.sampled_from([1.5, 2, 4, 16]))
def test_more_memory_never_means_more_tasks(arrays: list[ArrayFacts], budget: int, times: float) -> None:
    """A worker with more memory gets fewer, larger tasks and segments."""
    try:
        less, more = plan_of(arrays, budget).to_dict(), plan_of(arrays, int(budget * times)).to_dict()
    except RequestError:
        assume(False)
    for name in ("scatter_tasks", "piles", "levels"):
        assert more[name] <= less[name], name


@moderate
@given(sources(), budgets, st.integers(1, 8))
def test_small_segments_are_consolidated(arrays: list[ArrayFacts], budget: int, slots: int) -> None:
    """Segments under a megabyte are merged into one contiguous pile; larger ones are found by the index."""
    try:
        plan = plan_of(arrays, budget, slots, Sizes(levels=1))
    except RequestError:
        assume(False)
    first = plan.levels[0]
    small = plan.segment_bytes < SMALL_SEGMENT_BYTES and first.spans > 1
    assert plan.consolidation == ("physical" if small else "index")
    assert len(plan.levels) == 1 + small
    if small:
        assert (plan.levels[1].spans, plan.levels[1].pile_rows) == (1, first.pile_rows)


@pytest.mark.parametrize(
    ("gigabytes", "mebibytes", "levels"), [(0.01, 256, 0), (2, 256, 1), (64, 1024, 1), (1000, 4096, 1), (1000, 256, 2)]
)
def test_plans_of_rows_of_one_kibibyte(gigabytes: float, mebibytes: int, levels: int) -> None:
    """Large segments are preferred: no level without need, and another one when a single level would make crumbs."""
    n = int(gigabytes * 1e9) // 1024
    plan = plan_of([array_of("x", n, 1024, 4096)], mebibytes * MIB)
    assert plan.to_dict()["levels"] == levels
    if levels:
        assert plan.segment_bytes > 100_000
        assert plan.levels[0].span_rows * 1024 > mebibytes * MIB / 3
        assert plan.pile_rows * 1024 > mebibytes * MIB / 3


def test_chunk_rows_without_a_small_common_multiple() -> None:
    """The largest variable keeps its chunk rows, the others get a divisor of the pile that is not absurdly small."""
    arrays = [array_of("images", 10**7, 9000, 4099), array_of("labels", 10**7, 2, 4096)]
    plan = plan_of(arrays, 512 * MIB)
    assert plan.pile_rows % 4099 == 0
    assert "4096" in plan.notes[0]
    assert fitting_rows(plan.pile_rows, 4096, plan.n) >= 256


@given(st.integers(1, 10**7), st.integers(1, 10**5), st.integers(1, 10**9))
@moderate
def test_fitting_rows_divide_a_pile(pile_rows: int, wanted: int, n: int) -> None:
    """Chunks that were fitted never cross a border between piles."""
    rows = fitting_rows(pile_rows, wanted, n)
    assert 1 <= rows <= max(wanted, pile_rows)
    assert pile_rows % rows == 0 or pile_rows >= n


def test_a_variable_of_shards_counts_their_copies() -> None:
    """The projection knows that a shard is assembled from parts."""
    plain, sharded = (variable_size(a, a) for a in (array_of("x", 10, 8, 8), array_of("x", 10, 8, 8, 4)))
    assert sharded.unit_copies > plain.unit_copies
    assert sharded.read_rows == 4
