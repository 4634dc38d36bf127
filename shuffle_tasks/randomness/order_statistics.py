"""Exact order statistics of a key stream: piles whose sizes are known before any data is read.

The pairs (key, row) of n rows have a strict order. The pair of rank r (the one that has exactly r pairs below it) is
found without sorting the n pairs:

1. `key_histogram`: how many keys have each value of their leading bits (any range of rows; histograms add up);
2. `locate`: in which buckets of the histogram the wanted ranks are;
3. `select`: the pairs in these few buckets (any range of rows);
4. `finish`: sort them, and take the wanted ranks.

Steps 1 and 3 can be spread over workers in ranges of rows. `find_splitters` does the four in one process.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffle_tasks.randomness.ordering import stable_order
from shuffle_tasks.randomness.splitters import Splitters
from shuffle_tasks.randomness.streams import KeyStream

Pairs: TypeAlias = tuple[NDArray[np.uint64], NDArray[np.int64]]
"""Keys and rows, equally long."""

MAX_PAIRS = 2**22
HISTOGRAM_BITS = range(16, 23)
"""Sizes of histogram: 16 bits stay in the cache, 22 bits take 32 MiB."""


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """Where the wanted ranks are: the buckets of a histogram of leading bits, and the ranks within them.

    Parameters
    ----------
    bits
        Leading bits that name a bucket.
    buckets : ndarray of int64, shape (B,)
        The buckets that hold a wanted rank, ascending.
    counts : ndarray of int64, shape (B,)
        Pairs in each of these buckets.
    positions : ndarray of int64, shape (R,)
        For every rank, the position of its bucket in `buckets`.
    remaining : ndarray of int64, shape (R,)
        For every rank, how many pairs of its own bucket are below it.
    """

    bits: int
    buckets: NDArray[np.int64]
    counts: NDArray[np.int64]
    positions: NDArray[np.int64]
    remaining: NDArray[np.int64]

    def groups(self, max_pairs: int) -> list["Located"]:
        """Split the buckets into groups of at most `max_pairs` pairs; a bucket above that is a group of its own."""
        edges, pairs = [0], 0
        for bucket, count in enumerate(self.counts.tolist()):
            if pairs and pairs + count > max_pairs:
                edges.append(bucket)
                pairs = 0
            pairs += count
        edges.append(len(self.buckets))
        return [self._part(low, high) for low, high in pairwise(edges)]

    def _part(self, low: int, high: int) -> "Located":
        mine = (self.positions >= low) & (self.positions < high)
        return Located(
            self.bits, self.buckets[low:high], self.counts[low:high], self.positions[mine] - low, self.remaining[mine]
        )


def histogram_bits(n: int, ranks: int, max_pairs: int = MAX_PAIRS) -> int:
    """Return how many leading bits to count so that the buckets of `ranks` ranks hold few pairs, if that is possible.

    The result is bounded, so that the histogram is: more ranks than that need several passes.
    """
    wanted = (8 * ranks * n // max_pairs).bit_length()
    return min(max(wanted, HISTOGRAM_BITS[0]), HISTOGRAM_BITS[-1])


def key_histogram(stream: KeyStream, start: int, stop: int, bits: int) -> NDArray[np.int64]:
    """Count the keys of rows [`start`, `stop`) by their leading `bits` bits.

    Returns
    -------
    ndarray of int64, shape (2**bits,)
        The sum of the histograms of disjoint ranges is that of their union.

    Raises
    ------
    ValueError
        If the range is reversed or negative, or `bits` is not in 1..32.
    """
    if not 1 <= bits <= 32:
        raise ValueError(f"a histogram counts 1 to 32 leading bits, got {bits}")
    counts = np.zeros(2**bits, np.int64)
    # Enough words a block for the sum of two histograms to cost little.
    for _, words in stream.blocks(start, stop, max(2**18, 2**bits)):
        buckets = np.right_shift(words, np.uint64(64 - bits), out=words).view(np.int64)
        counts += np.bincount(buckets, minlength=2**bits)
    return counts


def locate(histogram: NDArray[np.int64], ranks: Sequence[int] | NDArray[np.int64]) -> Located:
    """Find the buckets that hold the pairs of the given `ranks`.

    Parameters
    ----------
    histogram : ndarray of int64, shape (2**bits,)
        The histogram of all n keys.
    ranks
        Strictly ascending, in 1..n-1.

    Raises
    ------
    ValueError
        If the ranks do not ascend strictly or are not in 1..n-1, or the histogram's length is not a power of two.
    """
    bits = len(histogram).bit_length() - 1
    if len(histogram) != 2**bits:
        raise ValueError(f"a histogram of leading bits has a power of two entries, got {len(histogram)}")
    wanted = _checked_ranks(int(histogram.sum()), ranks)
    upto = np.cumsum(histogram)
    bucket_of_rank = np.searchsorted(upto, wanted, side="right")
    buckets, positions = np.unique(bucket_of_rank, return_inverse=True)
    remaining = wanted - (upto - histogram)[bucket_of_rank]
    return Located(bits, buckets, histogram[buckets], positions, remaining)


def select(stream: KeyStream, start: int, stop: int, located: Located) -> Pairs:
    """Return the pairs of rows [`start`, `stop`) that are in the located buckets.

    Returns
    -------
    keys : ndarray of uint64, shape (m,)
    rows : ndarray of int64, shape (m,)
        Ascending.
    """
    wanted = np.zeros(2**located.bits, np.bool_)
    wanted[located.buckets] = True
    shift = np.uint64(64 - located.bits)
    keys, rows = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for first, words in stream.blocks(start, stop):
        hits = np.flatnonzero(wanted[(words >> shift).view(np.int64)])
        keys.append(words[hits])
        rows.append(hits + first)
    return np.concatenate(keys), np.concatenate(rows)


def finish(located: Located, parts: Iterable[Pairs]) -> Splitters:
    """Return the pairs of the wanted ranks.

    Parameters
    ----------
    located
        The result of `locate`.
    parts
        The results of `select` over disjoint ranges of rows that cover all n rows, in any order.

    Raises
    ------
    ValueError
        If the parts overlap, or are not all there.
    """
    ordered = sorted((part for part in parts if len(part[1])), key=lambda part: int(part[1][0]))
    keys = np.concatenate([np.empty(0, np.uint64), *(part[0] for part in ordered)])
    rows = np.concatenate([np.empty(0, np.int64), *(part[1] for part in ordered)])
    if len(keys) != located.counts.sum() or not np.all(rows[:-1] < rows[1:]):
        raise ValueError(
            f"the parts must be disjoint and cover all rows: the histogram has {located.counts.sum()} pairs in the "
            f"located buckets, the parts have {len(keys)}"
        )
    order = stable_order(keys)
    chosen = order[(np.cumsum(located.counts) - located.counts)[located.positions] + located.remaining]
    return Splitters(keys[chosen], rows[chosen])


def find_splitters(
    stream: KeyStream, n: int, ranks: Sequence[int] | NDArray[np.int64], max_pairs: int = MAX_PAIRS
) -> Splitters:
    """Return the pairs of the given `ranks` among rows [0, `n`): exactly ``ranks[j]`` pairs are below splitter j.

    Parameters
    ----------
    stream
        The keys.
    n
        Number of rows.
    ranks
        Strictly ascending, in 1..n-1; may be empty.
    max_pairs
        Pairs held at once. If the buckets of all ranks hold more, they are read in several passes. Only a single
        bucket may exceed it, which takes more than 2**36 rows, or keys of few bits.

    Returns
    -------
    Splitters

    Raises
    ------
    ValueError
        If the ranks do not ascend strictly, or are not in 1..n-1.
    """
    wanted = _checked_ranks(n, ranks)
    if not len(wanted):
        return Splitters(np.empty(0, np.uint64), np.empty(0, np.int64))
    bits = histogram_bits(n, len(wanted), max_pairs)
    located = locate(key_histogram(stream, 0, n, bits), wanted)
    parts = [finish(group, [select(stream, 0, n, group)]) for group in located.groups(max_pairs)]
    return Splitters(np.concatenate([part.keys for part in parts]), np.concatenate([part.rows for part in parts]))


def _checked_ranks(n: int, ranks: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    wanted = np.asarray(ranks, np.int64)
    if wanted.ndim != 1 or np.any(wanted[:-1] >= wanted[1:]):
        raise ValueError(f"ranks must be a strictly ascending vector, got {ranks!r}")
    if len(wanted) and not (wanted[0] >= 1 and wanted[-1] < n):
        raise ValueError(f"ranks must be in 1..n-1 for n={n}, got {wanted[0]}..{wanted[-1]}")
    return wanted
