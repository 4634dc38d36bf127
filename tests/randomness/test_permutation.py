"""Permutations: the definition of the order, its inverse, and its pieces, against a plain sort."""

import hashlib
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shuffle_tasks.errors import RequestError
from shuffle_tasks.randomness import KeyStream, Permutation, permutation

quick = settings(deadline=None, database=None, max_examples=60)
permutations = st.builds(
    Permutation,
    st.integers(0, 300),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    bits=st.sampled_from([1, 4, 64]),
)


def ascending_rows(order: Permutation) -> NDArray[np.int64]:
    """Return all source rows in order of (key, row): the oracle."""
    keys = KeyStream(order.seed, order.epoch, bits=order.bits).words(0, order.n)
    return np.lexsort((np.arange(order.n), keys))


@st.composite
def ranges(draw: st.DrawFn) -> tuple[Permutation, int, int]:
    """Draw a permutation and a range of its rows."""
    order = draw(permutations)
    start = draw(st.integers(0, order.n))
    return order, start, draw(st.integers(start, order.n))


@pytest.mark.parametrize(
    ("seed", "rows"),
    [(0, [3, 5, 6, 0, 7, 1, 4, 2]), (9176, [6, 1, 0, 2, 3, 7, 5, 4]), (2**63 + 5, [7, 0, 5, 3, 1, 6, 4, 2])],
)
def test_small_orders_are_golden(seed: int, rows: list[int]) -> None:
    """The order of eight rows under known seeds never changes, nor does its inverse."""
    order = Permutation(8, seed)
    assert order.source_rows(0, 8).tolist() == rows
    assert order.target_rows(0, 8).tolist() == np.argsort(rows).tolist()


def test_a_thousand_rows_are_golden() -> None:
    """The order of a thousand rows has a known checksum."""
    rows = Permutation(1000, 0).source_rows(0, 1000)
    assert hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()[:16] == "72a8d549a7180a73"


@quick
@given(ranges(), st.sampled_from([8, 50, 2**22]), st.sampled_from([1, 3, 16]))
def test_any_range_of_the_order_and_of_its_inverse(
    request_: tuple[Permutation, int, int], batch: int, batches: int
) -> None:
    """Ranges are slices of the sorted whole, in batches or at once, with ties."""
    order, start, stop = request_
    expected = ascending_rows(order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(permutation, "BATCH_RANKS", batch)
        patch.setattr(permutation, "BATCHES", batches)
        rows, targets = order.source_rows(start, stop), order.target_rows(start, stop)
    assert rows.dtype == targets.dtype == np.int64
    np.testing.assert_array_equal(rows, expected[start:stop])
    np.testing.assert_array_equal(targets, np.argsort(expected)[start:stop])


@quick
@given(permutations, st.integers(1, 400), st.sampled_from([8, 50, 2**22]))
def test_iteration_covers_the_order_in_chunks(order: Permutation, chunk: int, batch: int) -> None:
    """The chunks have the asked length, except the last, and follow each other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(permutation, "BATCH_RANKS", batch)
        chunks = list(order.iter_source_rows(chunk))
    assert [len(rows) for rows in chunks] == [min(chunk, order.n - at) for at in range(0, order.n, chunk)]
    np.testing.assert_array_equal(np.concatenate([np.empty(0, int), *chunks]), ascending_rows(order))


@pytest.mark.parametrize("bits", [4, 64])
@pytest.mark.parametrize(("start", "stop"), [(0, 40), (99_000, 99_005), (140_000, 150_000), (20_000, 120_000)])
def test_more_rows_than_a_batch(monkeypatch: pytest.MonkeyPatch, bits: int, start: int, stop: int) -> None:
    """Orders of many batches and queries of several sizes agree with the plain sort, with ties and without."""
    monkeypatch.setattr(permutation, "BATCH_RANKS", 2**14)
    order = Permutation(150_000, 11, 2, bits=bits)
    expected = ascending_rows(order)
    np.testing.assert_array_equal(order.source_rows(start, stop), expected[start:stop])
    np.testing.assert_array_equal(order.target_rows(start, stop), np.argsort(expected)[start:stop])


@pytest.mark.parametrize("n", [0, 1])
def test_trivial_orders(n: int) -> None:
    """No rows and one row have an order, too."""
    order = Permutation(n, 5)
    assert len(order) == n
    assert order.source_rows(0, n).tolist() == order.target_rows(0, n).tolist() == list(range(n))
    assert [rows.tolist() for rows in order.iter_source_rows(3)] == [[0]] * n
    assert len(order.keys(n, n)) == 0


def test_an_empty_range_of_a_huge_order_is_free() -> None:
    """Asking for no rows does not generate any keys."""
    order = Permutation(2**62 - 1, 5)
    assert len(order.source_rows(2**61, 2**61)) == len(order.target_rows(7, 7)) == len(order.keys(1, 1)) == 0


def test_keys_are_those_of_the_stream() -> None:
    """The keys of source rows are the words of the global order's stream."""
    np.testing.assert_array_equal(Permutation(50, 4, 3).keys(10, 50), KeyStream(4, 3).words(10, 50))


@pytest.mark.parametrize("method", ["keys", "source_rows", "target_rows"])
@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (3, 2), (0, 11), (11, 11)])
def test_ranges_outside_the_rows_are_refused(method: str, start: int, stop: int) -> None:
    """A range outside the rows raises an IndexError that gives both."""
    with pytest.raises(IndexError, match=rf"\[{start}, {stop}\).*\[0, 10\)"):
        getattr(Permutation(10, 0), method)(start, stop)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((-1, 0), "n"), ((2**62, 0), "n"), ((1.5, 0), "n"), ((True, 0), "n"), ((3, -1), "seed"), ((3, 0, 2**32), "epoch")],
)
def test_wrong_parameters_are_refused(arguments: tuple[int, ...], name: str) -> None:
    """A value that names no permutation is refused, and the message names the parameter."""
    with pytest.raises(RequestError, match=rf"^{name} must be"):
        Permutation(*arguments)


@pytest.mark.parametrize("chunk", [0, -3, 2.5])
def test_wrong_chunks_are_refused(chunk: int) -> None:
    """Iterating in chunks of no rows is refused at once, before the first chunk is asked for."""
    with pytest.raises(RequestError, match="chunk must be"):
        Permutation(10, 0).iter_source_rows(chunk)


def test_permutations_are_values() -> None:
    """Permutations compare, hash, print and pickle by their numbers."""
    order = Permutation(np.int64(10), np.uint64(3), 2)  # type: ignore[arg-type]
    assert order == Permutation(10, 3, 2) == pickle.loads(pickle.dumps(order))
    assert hash(order) == hash(Permutation(10, 3, 2))
    assert order != Permutation(10, 3, 1)
    assert "n=10, seed=3, epoch=2" in repr(order)


def test_orders_are_uniform() -> None:
    """All 24 orders of four rows are equally frequent over 9600 seeds and epochs (chi-square, false alarm: 1e-6)."""
    orders = Counter(
        tuple(Permutation(4, seed, epoch).source_rows(0, 4).tolist()) for seed in range(2400) for epoch in range(4)
    )
    assert sum((orders[order] - 400) ** 2 / 400 for order in orders) + 400 * (24 - len(orders)) < 72


def test_positions_are_uncorrelated_with_rows() -> None:
    """The correlation of source and target rows is within 5 sigma of zero, for 16 seeds (false alarm: 1e-5)."""
    n = 10_000
    for seed in range(16):
        correlation = np.corrcoef(np.arange(n), Permutation(n, seed).source_rows(0, n))[0, 1]
        assert abs(correlation) < 5 / np.sqrt(n)
