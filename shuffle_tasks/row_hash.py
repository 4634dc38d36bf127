"""The arithmetic of the certificate: hashes of rows, and digests of sets of rows that can be added in any order.

A row is the bytes of all its variables. Over its little-endian 64-bit words w (zero-padded per variable),

    hash = finalise(length + sum(w * a) + sum((w >> 32) * b))  mod 2**64

with fixed random 64-bit a and b for every word of every variable: one sum over all variables, so that the values of
one row are bound together. The products alone would lose high bits (two flipped sign bits cancel, whenever their a are
both odd or both even); the second sum moves the upper halves down, to where no bit is lost. Every hash is computed
twice, with independent constants: two different rows agree with a probability of about 2**-64 or less.

Values count bit for bit, as they would be stored in little-endian order: -0.0 differs from 0.0, and NaNs differ by
their payloads.

The multilinear family is that of D. Lemire and O. Kaser, "Strongly universal string hashing is fast", The Computer
Journal 57 (2014). What becomes of the hashes is in `shuffle_tasks.digests`, whose names are also found here.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffle_tasks.digests import Digest, Words, binding_digest, content_digest, finalise, mix, order_digest
from shuffle_tasks.errors import RequestError
from shuffle_tasks.randomness.streams import KeyStream, Purpose, checked_integer

ROW_HASH_VERSION = 1

BLOCK_WORDS = 2**18
"""Words read at a time: a block of 2 MiB, read four times, is worth the calls and still stays in the cache."""

COLUMN_WORDS = 2**16
"""Words of a row whose constants (2 MiB) are held at a time, for rows that are longer."""

SMALL_WORDS = 2**12
"""Rows of up to this many words keep their constants for the life of the process (128 KiB a variable at most)."""

NARROW_WORDS = 16
"""Rows of up to this many words are multiplied as matrices: einsum has a fixed cost for every row."""

HASHED_KINDS = "biufcmMSUV"

__all__ = ["ROW_HASH_VERSION", "Digest", "RowHasher", "binding_digest", "content_digest", "mix", "order_digest"]


class RowHasher:
    """Hashes rows of several variables, fed one variable, and one batch of rows, at a time.

    Parameters
    ----------
    row_nbytes
        Bytes of one row of each variable. Their order matters: it numbers the variables.

    Raises
    ------
    RequestError
        If a size is not an integer or is negative.

    Examples
    --------
    >>> hasher = RowHasher([784, 1])
    >>> sums = hasher.zeros(100)
    >>> hasher.add(sums, 0, np.zeros((100, 28, 28), np.uint8))
    >>> hasher.add(sums, 1, np.zeros(100, np.int8))
    >>> hasher.finish(sums).shape
    (100, 2)
    """

    def __init__(self, row_nbytes: Sequence[int]) -> None:
        self.row_nbytes = tuple(checked_integer("row_nbytes", size, 0, 2**62) for size in row_nbytes)

    @staticmethod
    def zeros(rows: int) -> Words:
        """Return the sums of `rows` rows that nothing was added to: uint64 zeros of shape (rows, 2)."""
        return np.zeros((rows, 2), np.uint64)

    def add(self, sums: Words, variable: int, rows: NDArray[np.generic], *, word_offset: int | None = None) -> None:
        """Add the contribution of one variable to `sums`, in place.

        Contiguous little-endian rows of whole words are read where they are; others are copied a block at a time.

        Parameters
        ----------
        sums : ndarray of uint64, shape (rows, 2)
            Start with `zeros`.
        variable
            Position of the variable in `row_nbytes`.
        rows : ndarray, shape (rows, ...)
            Numbers, bools, times, fixed-length strings or bytes or structures, in either byte order.
        word_offset
            None if whole rows are given. Else, where the given bytes start in each row, in words of 8 bytes: a row
            larger than memory can be added in pieces. A piece that does not end the row must be of whole words.

        Raises
        ------
        RequestError
            If the dtype has no fixed bytes (objects, variable-length strings).
        ValueError
            If shapes or sizes do not fit.
        """
        nbytes = self._piece_nbytes(sums, variable, rows, word_offset)
        if len(rows) == 0 or nbytes == 0:
            return
        at = 0
        for words in _word_blocks(rows, nbytes):
            _add_words(sums[at : at + len(words)], words, variable, word_offset or 0)
            at += len(words)

    def finish(self, sums: Words) -> Words:
        """Return the row hashes, once every byte of every variable is in `sums`.

        Returns
        -------
        ndarray of uint64, shape (rows, 2)
            A new array.
        """
        return finalise(sums + np.uint64(sum(self.row_nbytes) % 2**64))

    def _piece_nbytes(self, sums: Words, variable: int, rows: NDArray[np.generic], word_offset: int | None) -> int:
        """Check that the piece fits into its row, and return its bytes per row."""
        if rows.dtype.kind not in HASHED_KINDS or rows.dtype.hasobject:
            raise RequestError(f"rows of dtype {rows.dtype} have no fixed bytes to hash; convert them to fixed length")
        if rows.ndim < 1 or sums.shape != (len(rows), 2) or sums.dtype != np.uint64:
            raise ValueError(f"sums must be uint64 of shape (rows, 2), got {sums.dtype} {sums.shape} for {rows.shape}")
        if not 0 <= variable < len(self.row_nbytes):
            raise ValueError(f"variable must be in [0, {len(self.row_nbytes)}), got {variable}")
        nbytes = rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))
        if not _fits(nbytes, word_offset, self.row_nbytes[variable]):
            raise ValueError(
                f"{nbytes} bytes at word offset {word_offset} do not fit a row of {self.row_nbytes[variable]} bytes of "
                f"variable {variable}: give whole rows, or pieces at a word offset that end the row or are whole words"
            )
        return nbytes


def _fits(nbytes: int, word_offset: int | None, row_nbytes: int) -> bool:
    if word_offset is None:
        return nbytes == row_nbytes
    end = 8 * word_offset + nbytes
    return word_offset >= 0 and (end == row_nbytes or (nbytes % 8 == 0 and end < row_nbytes))


def _word_blocks(rows: NDArray[np.generic], nbytes: int) -> Iterator[Words]:
    """Yield the rows as little-endian words, zero-padded: shape (some rows, words). A block is valid until the next."""
    little = rows.dtype.newbyteorder("<")
    if rows.flags.c_contiguous and rows.dtype == little and nbytes % 8 == 0:
        yield rows.reshape(-1).view(np.uint8).view("<u8").reshape(len(rows), nbytes // 8)
        return
    if rows.dtype == little:
        # Structures are copied field by field, which would lose the bytes between the fields: copy them as raw bytes.
        little = np.dtype(f"V{little.itemsize}")
        rows = rows.view(little)
    words = -(-nbytes // 8)
    size = min(max(1, BLOCK_WORDS // words), len(rows))
    packed = np.zeros((size, *rows.shape[1:]), little)
    padded = np.zeros((size, 8 * words), np.uint8)
    for first in range(0, len(rows), size):
        some = rows[first : first + size]
        packed[: len(some)] = some
        padded[: len(some), :nbytes] = packed[: len(some)].reshape(-1).view(np.uint8).reshape(-1, nbytes)
        yield padded[: len(some)].view("<u8")


def _add_words(sums: Words, words: Words, variable: int, word_offset: int) -> None:
    # Columns outside: the constants of a block of columns serve all rows.
    for left in range(0, words.shape[1], COLUMN_WORDS):
        block = words[:, left : left + COLUMN_WORDS]
        constants = _constants(variable, word_offset + left, word_offset + left + block.shape[1])
        add = _add_narrow if block.shape[1] <= NARROW_WORDS else _add_wide
        add(sums, block, constants)


def _add_wide(sums: Words, words: Words, constants: Words) -> None:
    size = min(max(1, BLOCK_WORDS // words.shape[1]), len(words))
    scratch = np.empty((size, words.shape[1]), np.uint64)
    for first in range(0, len(words), size):
        block, total = words[first : first + size], sums[first : first + size]
        upper = np.right_shift(block, np.uint64(32), out=scratch[: len(block)])
        for k in range(2):
            total[:, k] += np.einsum("ij,j->i", block, constants[k])
            total[:, k] += np.einsum("ij,j->i", upper, constants[2 + k])


def _add_narrow(sums: Words, words: Words, constants: Words) -> None:
    size = min(max(1, BLOCK_WORDS // 16 // words.shape[1]), len(words))
    scratch, products = np.empty((size, words.shape[1]), np.uint64), np.empty((2, 2, size), np.uint64)
    # The product of matrices is that of numbers where rows have one word, and much slower.
    multiply = np.multiply if words.shape[1] == 1 else np.matmul
    for first in range(0, len(words), size):
        block = words[first : first + size]
        upper = np.right_shift(block, np.uint64(32), out=scratch[: len(block)])
        low, high = products[:, :, : len(block)]
        multiply(constants[:2], block.T, out=low)
        multiply(constants[2:], upper.T, out=high)
        low += high
        sums[first : first + size] += low.T


def _constants(variable: int, start: int, stop: int) -> Words:
    """Return a (for both hashes), then b, for words [start, stop): shape (4, stop - start)."""
    if stop <= SMALL_WORDS:
        return _few_constants(variable, start, stop)
    return _many_constants(variable, start, stop)


def _draw_constants(variable: int, start: int, stop: int) -> Words:
    # One Philox block of four words for each word of the row: any range can be drawn on its own.
    drawn = KeyStream(variable, purpose=Purpose.ROW_HASH).words(4 * start, 4 * stop)
    constants = np.ascontiguousarray(drawn.reshape(-1, 4).T)
    constants.flags.writeable = False
    return constants


_few_constants = lru_cache(maxsize=256)(_draw_constants)
_many_constants = lru_cache(maxsize=8)(_draw_constants)
