"""Splitters: the borders between piles, and what follows from them without reading any data."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffle_tasks.randomness.streams import BLOCK_WORDS, KeyStream

TABLE_BITS = 16
"""A table of this many leading bits fits the cache; few of its entries hold a splitter."""

TABLE_ROWS = 2**15
"""With fewer rows than this, building a table costs more than it saves."""


@dataclass(frozen=True, slots=True, eq=False)
class Splitters:
    """The borders between M + 1 piles: pile j holds the pairs from splitter j - 1 (included) to splitter j (excluded).

    Parameters
    ----------
    keys : ndarray of uint64, shape (M,)
    rows : ndarray of int64, shape (M,)
        The pairs (keys[j], rows[j]), strictly ascending in lexicographic order; each is the first of its upper side.

    Raises
    ------
    ValueError
        If the pairs are not strictly ascending, or the shapes differ.
    """

    keys: NDArray[np.uint64]
    rows: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Check that the pairs ascend: a pile would be wrong, without a word, if they did not."""
        object.__setattr__(self, "keys", np.ascontiguousarray(self.keys, np.uint64))
        object.__setattr__(self, "rows", np.ascontiguousarray(self.rows, np.int64))
        if self.keys.ndim != 1 or self.keys.shape != self.rows.shape:
            raise ValueError(f"keys and rows must be equally long vectors, got {self.keys.shape}, {self.rows.shape}")
        lower, upper = self.keys[:-1], self.keys[1:]
        if not np.all((lower < upper) | ((lower == upper) & (self.rows[:-1] < self.rows[1:]))):
            raise ValueError("splitters must be strictly ascending pairs (key, row)")

    def __len__(self) -> int:
        """Return the number of splitters, one less than that of piles."""
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        """Tell whether `other` holds the same pairs."""
        if not isinstance(other, Splitters):
            return NotImplemented
        return np.array_equal(self.keys, other.keys) and np.array_equal(self.rows, other.rows)

    __hash__ = None  # type: ignore[assignment]

    def pile_of(self, keys: NDArray[np.uint64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the pile of every pair: the number of splitters that are not above it.

        Parameters
        ----------
        keys : ndarray of uint64, shape (n,)
        rows : ndarray of int64, shape (n,)
            In any order.

        Returns
        -------
        ndarray of int64, shape (n,)
        """
        if len(keys) >= TABLE_ROWS:
            return PileTable(self).pile_of(keys, rows)
        return self.search(keys, rows)

    def cuts(self, sorted_keys: NDArray[np.uint64], sorted_rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cut a run of pairs in ascending order into piles.

        Parameters
        ----------
        sorted_keys : ndarray of uint64, shape (n,)
        sorted_rows : ndarray of int64, shape (n,)
            The pairs, ascending in (key, row).

        Returns
        -------
        ndarray of int64, shape (M + 2,) for M splitters
            Pile j of the run is [cuts[j], cuts[j + 1]). O(M log n).
        """
        below = np.searchsorted(sorted_keys, self.keys, side="left")
        above = np.searchsorted(sorted_keys, self.keys, side="right")
        for j in np.flatnonzero(above > below):
            below[j] += np.searchsorted(sorted_rows[below[j] : above[j]], self.rows[j], side="left")
        return np.concatenate([[0], below, [len(sorted_keys)]])

    def search(self, keys: NDArray[np.uint64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what `pile_of` returns, by binary search: the faster way for few rows."""
        piles = np.searchsorted(self.keys, keys, side="right")
        if len(self.keys):
            # Pile 0 looks at the last splitter here; it cannot be equal, for the key is below the first one.
            tied = np.flatnonzero(self.keys[piles - 1] == keys)
            if len(tied):
                piles[tied] = self._search_tied(keys[tied], rows[tied])
        return piles

    def _search_tied(self, keys: NDArray[np.uint64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        # A pair becomes one integer, group of equal splitter keys * width + rank of its row among the splitters' rows.
        # Ranks, because group * n + row could overflow.
        ranked = np.unique(self.rows)
        width = len(ranked) + 1
        own = np.searchsorted(self.keys, self.keys) * width + np.searchsorted(ranked, self.rows, side="right")
        asked = np.searchsorted(self.keys, keys) * width + np.searchsorted(ranked, rows, side="right")
        return np.searchsorted(own, asked, side="right")


class PileTable:
    """`Splitters.pile_of` for many rows: one look-up for most of them.

    The leading 16 bits of a key tell its pile, unless a splitter has the same leading bits; only then is the pair
    compared with the splitters.

    Parameters
    ----------
    splitters
        The borders of the piles.
    """

    def __init__(self, splitters: Splitters) -> None:
        leading = (splitters.keys >> np.uint64(64 - TABLE_BITS)).view(np.int64)
        splitters_in = np.bincount(leading, minlength=2**TABLE_BITS)
        self._splitters = splitters
        self.piles = len(splitters) + 1
        self._pile_in = np.where(splitters_in == 0, np.cumsum(splitters_in), -1)

    def pile_of(self, keys: NDArray[np.uint64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the pile of every pair, as `Splitters.pile_of` does."""
        piles, undecided = self._look_up(keys)
        piles[undecided] = self._splitters.search(keys[undecided], rows[undecided])
        return piles

    def pile_of_range(self, keys: NDArray[np.uint64], first_row: int) -> NDArray[np.int64]:
        """Return the piles of consecutive rows from `first_row` on, whose keys are `keys`."""
        piles, undecided = self._look_up(keys)
        piles[undecided] = self._splitters.search(keys[undecided], undecided + first_row)
        return piles

    def _look_up(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        piles = self._pile_in[(keys >> np.uint64(64 - TABLE_BITS)).view(np.int64)]
        return piles, np.flatnonzero(piles < 0)


def max_segment_rows(
    stream: KeyStream, n: int, splitters: Splitters, scatter_rows: int, tasks: range | None = None
) -> int:
    """Return the largest number of rows that one scatter task sends to one pile.

    Task k owns rows [k * `scatter_rows`, (k + 1) * `scatter_rows`) of the `n` rows. One pass over the keys.

    Parameters
    ----------
    stream
        The keys.
    n
        Number of rows.
    splitters
        The borders of the piles.
    scatter_rows
        Rows of a task; the last task may have fewer.
    tasks
        Consecutive tasks to look at, all by default: workers can take a part each, the largest of their results counts.

    Returns
    -------
    int
        0 if there is no row.

    Raises
    ------
    ValueError
        If `scatter_rows` is not positive, or `tasks` is not a range of consecutive existing tasks.
    """
    if scatter_rows < 1:
        raise ValueError(f"a scatter task must have at least one row, got scatter_rows={scatter_rows}")
    existing = range(-(-n // scatter_rows))
    tasks = existing if tasks is None else tasks
    if tasks.step != 1 or (len(tasks) and not (tasks.start in existing and tasks[-1] in existing)):
        raise ValueError(f"tasks must be consecutive tasks of {existing}, got {tasks}")
    table = PileTable(splitters)
    # Short tasks are counted together, as long as their counts stay small.
    group = max(1, min(BLOCK_WORDS // scatter_rows, BLOCK_WORDS // (len(splitters) + 1)))
    groups = (tasks[at : at + group] for at in range(0, len(tasks), group))
    return max((_largest_segment(stream, n, table, scatter_rows, some) for some in groups), default=0)


def _largest_segment(stream: KeyStream, n: int, table: PileTable, scatter_rows: int, tasks: range) -> int:
    counts = np.zeros(len(tasks) * table.piles, np.int64)
    start = tasks.start * scatter_rows
    for first, words in stream.blocks(start, min(tasks.stop * scatter_rows, n)):
        segments = table.pile_of_range(words, first)
        if len(tasks) > 1:
            offsets = np.arange(first - start, first - start + len(words))
            segments += offsets // scatter_rows * table.piles
        counts += np.bincount(segments, minlength=len(counts))
    return int(counts.max())
