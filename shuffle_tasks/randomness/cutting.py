"""Cut rows of known keys, but unknown row numbers, at splitters: what the deeper scatter levels do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shuffle_tasks.randomness.splitters import Splitters
from shuffle_tasks.randomness.streams import KeyStream


def cut_keys(
    sorted_keys: NDArray[np.uint64],
    splitters: Splitters,
    stream: KeyStream,
    span: tuple[int, int],
    lower: tuple[int, int],
) -> NDArray[np.int64]:
    """Return where ascending pairs are cut by `splitters`, given their keys alone.

    Only a tie with a splitter needs row numbers. Then the keys of the span are drawn again, which with 64-bit keys is
    as good as never.

    Parameters
    ----------
    sorted_keys : ndarray of uint64, shape (n,)
        The keys of all rows of the span that are in the parent pile, ascending, ties by row.
    splitters
        The borders inside the parent pile.
    stream
        The keys.
    span
        Source rows [start, stop) that the rows come from.
    lower
        First pair (key, row) of the parent pile.

    Returns
    -------
    ndarray of int64, shape (M + 2,) for M splitters
        Part j is [cuts[j], cuts[j + 1]).
    """
    below = np.searchsorted(sorted_keys, splitters.keys, side="left")
    above = np.searchsorted(sorted_keys, splitters.keys, side="right")
    for j in np.flatnonzero(above > below):
        key, row = int(splitters.keys[j]), int(splitters.rows[j])
        if row >= span[1]:
            below[j] = above[j]
        elif row > span[0] and above[j] - below[j] > 1:
            first = max(span[0], lower[1]) if lower[0] == key else span[0]
            below[j] += _count_key(stream, key, first, row)
    return np.concatenate([[0], below, [len(sorted_keys)]])


def _count_key(stream: KeyStream, key: int, start: int, stop: int) -> int:
    """Return how many rows of [start, stop) have this very key."""
    if stop <= start:
        return 0
    return sum(int(np.count_nonzero(words == np.uint64(key))) for _, words in stream.blocks(start, stop))
