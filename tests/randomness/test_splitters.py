"""Splitters: exact order statistics, piles of exact size, ties, and the spread of the work over ranges of rows."""

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shuffle_tasks.randomness import (
    KeyStream,
    PileTable,
    Splitters,
    find_splitters,
    finish,
    key_histogram,
    locate,
    max_segment_rows,
    select,
    stable_order,
)
from shuffle_tasks.randomness.ordering import sorted_keys

quick = settings(deadline=None, database=None, max_examples=60)
streams = st.builds(KeyStream, st.integers(0, 2**64 - 1), bits=st.sampled_from([1, 4, 12, 64]))


def ascending(stream: KeyStream, n: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return all pairs in order: the oracle."""
    keys, rows = stream.words(0, n), np.arange(n)
    order = np.lexsort((rows, keys))
    return keys[order], rows[order]


@st.composite
def requests(draw: st.DrawFn) -> tuple[KeyStream, int, list[int]]:
    """Draw a stream, a number of rows, and ranks."""
    n = draw(st.integers(2, 400))
    ranks = draw(st.sets(st.integers(1, n - 1), max_size=30))
    return draw(streams), n, sorted(ranks)


@quick
@given(requests(), st.sampled_from([1, 7, 2**22]))
def test_splitters_are_the_pairs_of_their_ranks(request_: tuple[KeyStream, int, list[int]], max_pairs: int) -> None:
    """Splitter j is the pair at rank j of the sorted pairs, in however many passes it is found."""
    stream, n, ranks = request_
    keys, rows = ascending(stream, n)
    assert find_splitters(stream, n, ranks, max_pairs) == Splitters(keys[ranks], rows[ranks])


@quick
@given(requests(), st.integers(1, 400), st.integers(1, 20), st.randoms())
def test_the_work_can_be_spread_over_ranges_of_rows(
    request_: tuple[KeyStream, int, list[int]], part_rows: int, bits: int, random: object
) -> None:
    """Histograms and selections of ranges, in any order, lead to the same splitters as one process."""
    stream, n, ranks = request_
    ranges = [(start, min(start + part_rows, n)) for start in range(0, n, part_rows)]
    located = locate(np.sum([key_histogram(stream, *part, min(bits, 14)) for part in ranges], axis=0), ranks)
    random.shuffle(ranges)  # type: ignore[attr-defined]
    parts = [select(stream, *part, located) for part in ranges]
    assert finish(located, parts) == find_splitters(stream, n, ranks)


@quick
@given(requests())
def test_piles_have_exactly_the_planned_rows(request_: tuple[KeyStream, int, list[int]]) -> None:
    """The table and the search both put as many rows into each pile as the ranks say, ties included."""
    stream, n, ranks = request_
    splitters = find_splitters(stream, n, ranks)
    keys, rows = stream.words(0, n), np.arange(n)
    piles = splitters.pile_of(keys, rows)
    np.testing.assert_array_equal(np.bincount(piles, minlength=len(ranks) + 1), np.diff([0, *ranks, n]))
    pairs = list(zip(splitters.keys.tolist(), splitters.rows.tolist(), strict=True))
    expected = [sum(pair <= (key, row) for pair in pairs) for row, key in enumerate(keys.tolist())]
    assert piles.tolist() == expected
    assert PileTable(splitters).pile_of(keys[::-1], rows[::-1]).tolist() == expected[::-1]
    assert PileTable(splitters).pile_of_range(keys[n // 2 :], n // 2).tolist() == expected[n // 2 :]


@pytest.mark.parametrize("bits", [4, 64])
def test_many_rows_take_the_table(bits: int) -> None:
    """A batch large enough for the table gives the piles of the search."""
    stream, n = KeyStream(8, bits=bits), 2**16
    splitters = find_splitters(stream, n, np.arange(1000, n, 1000))
    keys, rows = stream.words(0, n), np.arange(n)
    np.testing.assert_array_equal(splitters.pile_of(keys, rows), splitters.search(keys, rows))


@quick
@given(requests(), st.integers(0, 200), st.integers(0, 200))
def test_cuts_agree_with_piles(request_: tuple[KeyStream, int, list[int]], start: int, length: int) -> None:
    """Cutting the sorted run of a range of rows gives as many rows a pile as `pile_of`."""
    stream, n, ranks = request_
    splitters = find_splitters(stream, n, ranks)
    rows = np.arange(min(start, n), min(start + length, n))
    keys = stream.words(rows[0], rows[-1] + 1) if len(rows) else np.empty(0, np.uint64)
    order = np.argsort(keys, kind="stable")
    cuts = splitters.cuts(keys[order], rows[order])
    assert cuts.dtype == np.int64
    counts = np.bincount(splitters.pile_of(keys, rows), minlength=len(ranks) + 1)
    np.testing.assert_array_equal(np.diff(cuts), counts)


@quick
@given(requests(), st.integers(1, 500), st.data())
def test_largest_segment(request_: tuple[KeyStream, int, list[int]], scatter_rows: int, data: st.DataObject) -> None:
    """The largest segment is that of a table of tasks by piles, for all tasks and for a range of them."""
    stream, n, ranks = request_
    splitters = find_splitters(stream, n, ranks)
    rows = np.arange(n)
    table = np.zeros((-(-n // scatter_rows), len(ranks) + 1), int)
    np.add.at(table, (rows // scatter_rows, splitters.pile_of(stream.words(0, n), rows)), 1)
    assert max_segment_rows(stream, n, splitters, scatter_rows) == table.max()
    low = data.draw(st.integers(0, len(table) - 1))
    high = data.draw(st.integers(low, len(table)))
    found = max_segment_rows(stream, n, splitters, scatter_rows, range(low, high))
    assert found == table[low:high].max(initial=0)


def test_largest_segment_of_tasks_longer_than_a_block() -> None:
    """A task that spans several blocks of keys is counted as one."""
    stream, n = KeyStream(2), 2**19 + 5
    splitters = find_splitters(stream, n, [n // 3, n // 2])
    assert max_segment_rows(stream, n, splitters, n) == n - n // 2
    assert max_segment_rows(stream, 0, splitters, 10) == 0


@pytest.mark.parametrize(("scatter_rows", "tasks"), [(0, None), (10, range(11)), (10, range(0, 4, 2))])
def test_wrong_tasks_are_refused(scatter_rows: int, tasks: range | None) -> None:
    """Empty tasks and tasks that do not exist are refused."""
    stream = KeyStream(0)
    with pytest.raises(ValueError, match="task"):
        max_segment_rows(stream, 100, find_splitters(stream, 100, [5]), scatter_rows, tasks)


@pytest.mark.parametrize("ranks", [[0], [10], [3, 3], [4, 3], [-1], [[1]]])
def test_wrong_ranks_are_refused(ranks: list[int]) -> None:
    """Ranks that are repeated, not ascending, or leave an empty side are refused before any key is generated."""
    with pytest.raises(ValueError, match="ranks must be"):
        find_splitters(KeyStream(0), 10, ranks)
    with pytest.raises(ValueError, match="ranks must be"):
        locate(key_histogram(KeyStream(0), 0, 10, 3), ranks)


def test_missing_and_repeated_parts_are_refused() -> None:
    """Selections that leave out rows, or have rows twice, are refused rather than turned into wrong borders."""
    stream = KeyStream(0, bits=2)
    located = locate(key_histogram(stream, 0, 100, 4), [20, 50])
    left, right = select(stream, 0, 50, located), select(stream, 50, 100, located)
    for parts in ([], [left], [left, right, right], [left, left]):
        with pytest.raises(ValueError, match="disjoint"):
            finish(located, parts)


def test_wrong_histograms_are_refused() -> None:
    """Histograms of no bits, of too many, or of another length are refused."""
    for bits in (0, 33):
        with pytest.raises(ValueError, match="leading bits"):
            key_histogram(KeyStream(0), 0, 1, bits)
    with pytest.raises(ValueError, match="power of two"):
        locate(np.ones(3, np.int64), [1])


@pytest.mark.parametrize(
    ("keys", "rows"), [([2, 1], [0, 0]), ([1, 1], [3, 3]), ([1, 1], [3, 2]), ([1], [1, 2]), ([[1]], [[1]])]
)
def test_splitters_must_ascend(keys: list[int], rows: list[int]) -> None:
    """Borders that are not strictly ascending pairs are refused."""
    with pytest.raises(ValueError, match=r"ascending|vectors"):
        Splitters(np.array(keys, np.uint64), np.array(rows))


def test_splitters_are_values() -> None:
    """Splitters compare by content, have a length, survive pickling, and may be none at all."""
    splitters = find_splitters(KeyStream(0), 100, [10, 20])
    assert pickle.loads(pickle.dumps(splitters)) == splitters
    assert splitters != find_splitters(KeyStream(0), 100, [10, 21])
    assert splitters != "something else"
    assert len(splitters) == 2
    none = find_splitters(KeyStream(0), 0, [])
    assert len(none) == 0
    assert none.pile_of(np.array([3], np.uint64), np.array([0])).tolist() == [0]
    assert none.cuts(np.array([3], np.uint64), np.array([0])).tolist() == [0, 1]


def test_memory_does_not_grow_with_the_rows() -> None:
    """Finding 50 borders among 2**21 rows takes a fraction of the 32 MiB of their pairs."""
    stream = KeyStream(0)
    tracemalloc.start()
    find_splitters(stream, 2**21, np.arange(1, 51) * 40000, max_pairs=2**14)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 2**20


@quick
@given(streams, st.integers(0, 5000), st.integers(0, 60))
def test_stable_order_is_that_of_numpy(stream: KeyStream, n: int, shift: int) -> None:
    """The two-step sorts give NumPy's stable order and sort, for keys of any span, ties included."""
    keys = stream.words(0, n)
    keys = (keys >> np.uint64(shift)) + np.uint64(5)
    np.testing.assert_array_equal(stable_order(keys), np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(sorted_keys(keys), np.sort(keys))
