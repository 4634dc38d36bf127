"""Random words by position: the one module that creates generators.

A stream is a function from a word's index to 64 bits, not a sequence that is consumed: any range of it can be
computed by any worker, in any order, without state. NumPy promises the output of ``BitGenerator.random_raw`` for
ever, and that of ``Generator`` methods it does not, so nothing but ``random_raw`` is called here.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from shuffle_tasks.errors import RequestError

BLOCK_WORDS = 2**18
"""Words generated at a time: 2 MiB stays in the cache, and one huge call is slower than many of this size."""

WORD_LIMIT = 2**63
"""Words are addressed by row numbers, which are int64."""


class Purpose(IntEnum):
    """What a stream is for. Streams with different purposes are independent, whatever their seeds."""

    GLOBAL_ORDER = 1
    TRANSFORM_ORDER = 2
    ROW_HASH = 3


def checked_integer(name: str, value: object, low: int, high: int) -> int:
    """Return `value` as a Python int in [`low`, `high`).

    Raises
    ------
    RequestError
        If `value` is not an integer (a bool is none), or is out of range.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, SupportsIndex):
        raise RequestError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}")
    number = operator.index(value)
    if not low <= number < high:
        raise RequestError(f"{name} must be in [{low}, {high}), got {number}; choose a value in this range")
    return number


@dataclass(frozen=True, slots=True)
class KeyStream:
    """A stream of independent uniform 64-bit words, addressed by index.

    Word i is lane ``i % 4`` of the Philox4x64-10 block at counter ``[i // 4 + 1, block, source, 0]`` (NumPy increments
    the counter before each block) under the key ``[seed, purpose << 32 | epoch]``.

    Parameters
    ----------
    seed
        In [0, 2**64).
    epoch
        In [0, 2**32). Epochs of one seed are independent streams.
    purpose
        What the words are for.
    bits
        In 1..64. Only the leading `bits` bits of every word are kept, the rest are zero: few bits make ties common,
        which is how the tests reach them.
    block, source
        Upper words of the counter, each in [0, 2**64): independent sub-streams, for rows that have no global number.

    Raises
    ------
    RequestError
        If a value is not an integer or is out of range.

    References
    ----------
    .. [1] J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11.
    """

    seed: int
    epoch: int = 0
    purpose: Purpose = Purpose.GLOBAL_ORDER
    bits: int = 64
    block: int = 0
    source: int = 0

    def __post_init__(self) -> None:
        """Validate the numbers, and store them as Python integers."""
        limits = {"seed": (0, 2**64), "epoch": (0, 2**32), "bits": (1, 65), "block": (0, 2**64), "source": (0, 2**64)}
        for name, (low, high) in limits.items():
            object.__setattr__(self, name, checked_integer(name, getattr(self, name), low, high))
        if self.purpose not in list(Purpose):
            raise RequestError(f"purpose must be one of {[item.name for item in Purpose]}, got {self.purpose!r}")
        object.__setattr__(self, "purpose", Purpose(self.purpose))

    def words(self, start: int, stop: int) -> NDArray[np.uint64]:
        """Return words [`start`, `stop`) of the stream.

        Returns
        -------
        ndarray of uint64, shape (stop - start,)
            The peak memory is this array and one block of 2 MiB.

        Raises
        ------
        ValueError
            If the range is not within [0, 2**63), or is reversed.
        """
        blocks = self.blocks(start, stop)
        output = np.empty(stop - start, np.uint64)
        for first, words in blocks:
            output[first - start : first - start + len(words)] = words
        return output

    def blocks(self, start: int, stop: int, size: int = BLOCK_WORDS) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Iterate over words [`start`, `stop`) in blocks of `size` words; the last one may be shorter.

        Yields
        ------
        block_start : int
            Index of the block's first word.
        words : ndarray of uint64, shape (at most `size`,)
            A new array, which the caller may overwrite.

        Raises
        ------
        ValueError
            If the range is not within [0, 2**63), or is reversed, or `size` is not positive.
        """
        start, stop, size = operator.index(start), operator.index(stop), operator.index(size)
        if not 0 <= start <= stop <= WORD_LIMIT:
            raise ValueError(f"a range of words must satisfy 0 <= start <= stop <= 2**63, got [{start}, {stop})")
        if size < 1:
            raise ValueError(f"a block must have at least one word, got size={size}")
        return ((first, self._generate(first, min(first + size, stop))) for first in range(start, stop, size))

    def _generate(self, start: int, stop: int) -> NDArray[np.uint64]:
        # Arrays, never lists: NumPy turns a list that holds a value of 2**63 or more into float64 without a word.
        # Never `advance`: it counts blocks of four words, not words.
        lane = start % 4
        key = np.array([self.seed, self.purpose << 32 | self.epoch], np.uint64)
        counter = np.array([start // 4, self.block, self.source, 0], np.uint64)
        words = np.random.Philox(key=key, counter=counter).random_raw(stop - start + lane)[lane:]
        if self.bits < 64:
            words &= np.uint64(2**64 - 2 ** (64 - self.bits))
        return words
