"""The shuffled order as a value: three numbers, from which any part of it and of its inverse is computed."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shuffle_tasks.randomness.order_statistics import find_splitters
from shuffle_tasks.randomness.ordering import sorted_keys, stable_order
from shuffle_tasks.randomness.streams import KeyStream, checked_integer

BATCH_RANKS = 2**22
"""Rows sorted at a time. A batch costs one pass over all keys, and at most about 170 MB."""

BATCHES = 16
"""Long ranges take this many batches, each larger: their scratch is then a fraction of their output."""

FEW_QUERIES = 16
"""Up to this many, it is cheaper to look up unsorted keys among the queries than to sort the keys."""


@dataclass(frozen=True, slots=True)
class Permutation:
    """The order of `n` rows under a seed and an epoch: the rows in ascending (key, row).

    The key of row i is word i of `KeyStream`. Target row t of the shuffled dataset is source row
    ``source_rows(t, t + 1)[0]``; `target_rows` is the inverse. Nothing is stored: every call recomputes what it needs
    in O(n) time, and in O(1) memory beyond its result.

    Parameters
    ----------
    n
        Number of rows, in [0, 2**62).
    seed
        In [0, 2**64).
    epoch
        In [0, 2**32).
    bits
        Leading bits of every key that are kept, in 1..64; few bits make ties common, for tests.

    Raises
    ------
    RequestError
        If a value is not an integer or is out of range.
    """

    n: int
    seed: int
    epoch: int = 0
    bits: int = field(default=64, kw_only=True)

    def __post_init__(self) -> None:
        """Validate the numbers, and store them as Python integers."""
        object.__setattr__(self, "n", checked_integer("n", self.n, 0, 2**62))
        stream = self.stream
        for name in ("seed", "epoch", "bits"):
            object.__setattr__(self, name, getattr(stream, name))

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.n

    @property
    def stream(self) -> KeyStream:
        """The stream of the rows' keys."""
        return KeyStream(self.seed, self.epoch, bits=self.bits)

    def keys(self, start: int, stop: int) -> NDArray[np.uint64]:
        """Return the keys of source rows [`start`, `stop`).

        Returns
        -------
        ndarray of uint64, shape (stop - start,)

        Raises
        ------
        IndexError
            If the range is reversed or not within [0, n).
        """
        self._check_range("source", start, stop)
        return self.stream.words(start, stop)

    def source_rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the source rows that stand at target rows [`start`, `stop`).

        Returns
        -------
        ndarray of int64, shape (stop - start,)

        Raises
        ------
        IndexError
            If the range is reversed or not within [0, n).
        """
        self._check_range("target", start, stop)
        output = np.empty(stop - start, np.int64)
        if start == stop:
            return output
        for first, rows in self._batches(start, stop, _batch_size(stop - start)):
            output[first - start : first - start + len(rows)] = rows
        return output

    def target_rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the target rows at which source rows [`start`, `stop`) stand: the inverse of `source_rows`.

        Returns
        -------
        ndarray of int64, shape (stop - start,)

        Raises
        ------
        IndexError
            If the range is reversed or not within [0, n).
        """
        self._check_range("source", start, stop)
        if self.n <= BATCH_RANKS or stop - start > self.n // 8:
            return self._invert(start, stop)
        size = _batch_size(stop - start)
        firsts = range(start, stop, size)
        batches = [self._count_below(first, min(first + size, stop)) for first in firsts]
        return np.concatenate([np.empty(0, np.int64), *batches])

    def iter_source_rows(self, chunk: int) -> Iterator[NDArray[np.int64]]:
        """Iterate over ``source_rows(0, n)`` in consecutive arrays of `chunk` target rows; the last may be shorter.

        The keys are read once for about four million target rows.

        Raises
        ------
        RequestError
            If `chunk` is not a positive integer.
        """
        chunk = checked_integer("chunk", chunk, 1, 2**63)
        batch = chunk * -(-BATCH_RANKS // chunk)
        return (
            rows[at : at + chunk] for _, rows in self._batches(0, self.n, batch) for at in range(0, len(rows), chunk)
        )

    def iter_sorted_keys(self, chunk: int) -> Iterator[NDArray[np.uint64]]:
        """Iterate over the keys of all rows in target order, in consecutive arrays of `chunk`; the last may be shorter.

        Raises
        ------
        RequestError
            If `chunk` is not a positive integer.
        """
        chunk = checked_integer("chunk", chunk, 1, 2**63)
        batch = chunk * -(-BATCH_RANKS // chunk)
        return (
            keys[at : at + chunk] for _, keys, _ in self._sorted(0, self.n, batch) for at in range(0, len(keys), chunk)
        )

    def _check_range(self, kind: str, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= self.n:
            raise IndexError(f"{kind} rows [{start}, {stop}) are not a range within [0, {self.n})")

    def _batches(self, start: int, stop: int, size: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield (first target row, source rows) of consecutive batches of `size` target rows."""
        return ((first, rows) for first, _, rows in self._sorted(start, stop, size))

    def _sorted(self, start: int, stop: int, size: int) -> Iterator[tuple[int, NDArray[np.uint64], NDArray[np.int64]]]:
        """Yield (first target row, keys, source rows) of consecutive batches of `size` target rows."""
        if self.n <= BATCH_RANKS:
            keys = self.keys(0, self.n)
            rows = stable_order(keys)[start:stop]
            yield start, keys[rows], rows
            return
        edges = [*range(start, stop, size), stop]
        bounds = self._bounds(edges)
        for j, first in enumerate(edges[:-1]):
            yield first, *self._sort_between(bounds[j], bounds[j + 1], edges[j + 1] - first)

    def _bounds(self, ranks: list[int]) -> list[tuple[int, int]]:
        """Return the pairs of the given ranks, where a pair above all others stands for rank n."""
        inner = sorted({rank for rank in ranks if 0 < rank < self.n})
        splitters = find_splitters(self.stream, self.n, inner)
        pairs = zip(splitters.keys.tolist(), splitters.rows.tolist(), strict=True)
        bounds = {0: (0, 0), self.n: (2**64 - 1, self.n)} | dict(zip(inner, pairs, strict=True))
        return [bounds[rank] for rank in ranks]

    def _sort_between(
        self, lower: tuple[int, int], upper: tuple[int, int], count: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the `count` keys and rows from the pair `lower` (included) to `upper` (excluded), in order."""
        keys, rows, filled = np.empty(count, np.uint64), np.empty(count, np.int64), 0
        for first, words in self.stream.blocks(0, self.n):
            # One comparison for both bounds: below the lower one, the difference wraps round.
            hits = np.flatnonzero(words - np.uint64(lower[0]) <= np.uint64(upper[0] - lower[0]))
            hits = hits[_is_between(words[hits], hits + first, lower, upper)]
            after = filled + len(hits)
            keys[filled:after] = words[hits]
            rows[filled:after] = hits + first
            filled = after
        order = stable_order(keys)
        return keys[order], rows[order]

    def _count_below(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the target rows of source rows [start, stop) by counting the pairs below each, in one pass.

        A row before the range is below an equal key in it, a row after it is not: ties need no comparison of rows.
        """
        queries = self.keys(start, stop)
        order = stable_order(queries)
        queries = queries[order]
        entering = np.zeros(stop - start + 1, np.int64)
        entering[1:] = 1
        for first, last, side in ((0, start, "left"), (stop, self.n, "right")):
            for _, words in self.stream.blocks(first, last):
                ascending = sorted_keys(words) if len(queries) > FEW_QUERIES else words
                np.add.at(entering, np.searchsorted(queries, ascending, side=side), 1)  # type: ignore[call-overload]
        targets = np.empty(stop - start, np.int64)
        targets[order] = np.cumsum(entering[:-1])
        return targets

    def _invert(self, start: int, stop: int) -> NDArray[np.int64]:
        targets = np.empty(stop - start, np.int64)
        for first, rows in self._batches(0, self.n, _batch_size(stop - start)):
            mine = np.flatnonzero((rows >= start) & (rows < stop))
            targets[rows[mine] - start] = mine + first
        return targets


def _batch_size(rows: int) -> int:
    return max(BATCH_RANKS, -(-rows // BATCHES))


def _is_between(
    keys: NDArray[np.uint64], rows: NDArray[np.int64], lower: tuple[int, int], upper: tuple[int, int]
) -> NDArray[np.bool_]:
    """Tell which pairs are in [lower, upper), given that their keys are in [lower, upper]."""
    too_low = (keys == np.uint64(lower[0])) & (rows < lower[1])
    too_high = (keys == np.uint64(upper[0])) & (rows >= upper[1])
    between: NDArray[np.bool_] = ~(too_low | too_high)
    return between
