"""Digests of sets of rows: sums of row hashes modulo 2**64, so that parts add up, in any order of work.

Three digests of the same rows say different things:

- content: which rows there are, and how often;
- binding: which key each of them has (equal before and after a shuffle; with ascending keys it proves the order);
- order: at which position each of them stands (compares two results without reading them).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffle_tasks.errors import RequestError
from shuffle_tasks.randomness.streams import checked_integer

Words = NDArray[np.uint64]

FINALISE_WORDS = 2**14
"""Words finalised at a time: they stay in the cache through all steps."""

_GOLDEN = 0x9E3779B97F4A7C15
_BINDING_SALT = 0xD1B54A32D192ED03
_ORDER_SALT = 0xABC98388FB8FAC03


def finalise(values: Words) -> Words:
    """Apply the finaliser of splitmix64, in place, to C-contiguous `values`, and return them.

    It is a bijection of 64-bit words in which every bit of the input moves about half of the bits of the output.

    References
    ----------
    .. [1] G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    .. [2] D. Stafford, "Better bit mixing", 2011: the shifts and factors are his mix13.
    """
    flat = values.reshape(-1)
    scratch = np.empty(min(FINALISE_WORDS, len(flat)), np.uint64)
    for first in range(0, len(flat), FINALISE_WORDS):
        block = flat[first : first + FINALISE_WORDS]
        shifted = scratch[: len(block)]
        block += np.uint64(_GOLDEN)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            block ^= np.right_shift(block, np.uint64(shift), out=shifted)
            block *= np.uint64(factor)
        block ^= np.right_shift(block, np.uint64(31), out=shifted)
    return values


def mix(hashes: Words, words: Words, salt: int = _BINDING_SALT) -> Words:
    """Return a strong mix of each row hash with a word of its row: its key, or its position.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (rows, 2)
    words : ndarray of uint64, shape (rows,)
    salt
        Mixes with different salts are unrelated.

    Returns
    -------
    ndarray of uint64, shape (rows, 2)
        A new array.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    """
    if hashes.shape != (len(words), 2) or words.ndim != 1:
        raise ValueError(f"hashes must have shape (rows, 2) and words (rows,), got {hashes.shape} and {words.shape}")
    bound = finalise(words.astype(np.uint64) ^ np.uint64(salt))
    return finalise(hashes ^ bound[:, np.newaxis])


@dataclass(frozen=True, slots=True)
class Digest:
    """The sum of the hashes of a set of rows, modulo 2**64, for each of the two hashes.

    Digests of disjoint sets add up to that of their union, in any order.

    Parameters
    ----------
    first, second
        In [0, 2**64).

    Raises
    ------
    RequestError
        If a value is not an integer or is out of range.
    """

    first: int
    second: int

    def __post_init__(self) -> None:
        """Validate the numbers, and store them as Python integers."""
        for name in ("first", "second"):
            object.__setattr__(self, name, checked_integer(name, getattr(self, name), 0, 2**64))

    @classmethod
    def zero(cls) -> "Digest":
        """Return the digest of no rows."""
        return cls(0, 0)

    @classmethod
    def from_hex(cls, text: str) -> "Digest":
        """Return the digest that `hex` wrote.

        Raises
        ------
        RequestError
            If `text` is not 32 hexadecimal digits.
        """
        if len(text) != 32 or not set(text.lower()) <= set("0123456789abcdef"):
            raise RequestError(f"a digest has 32 hexadecimal digits, got {text!r}")
        return cls(int(text[:16], 16), int(text[16:], 16))

    def hex(self) -> str:
        """Return 32 hexadecimal digits."""
        return f"{self.first:016x}{self.second:016x}"

    def __add__(self, other: "Digest") -> "Digest":
        """Return the digest of both sets of rows together."""
        if not isinstance(other, Digest):
            return NotImplemented
        return Digest((self.first + other.first) % 2**64, (self.second + other.second) % 2**64)


def content_digest(hashes: Words) -> Digest:
    """Return the digest of the rows with these `hashes`, wherever they stand.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (rows, 2)
    """
    # Column by column: a sum over the first axis of so narrow an array takes ten times as long.
    return Digest(*(int(hashes[:, k].sum(dtype=np.uint64)) for k in range(2)))


def binding_digest(hashes: Words, keys: Words) -> Digest:
    """Return the digest of the rows together with their keys: a row that took another's key changes it.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (rows, 2)
    keys : ndarray of uint64, shape (rows,)
    """
    return content_digest(mix(hashes, keys))


def order_digest(hashes: Words, start: int) -> Digest:
    """Return the digest of the rows together with their positions `start`, `start` + 1, ...

    Parameters
    ----------
    hashes : ndarray of uint64, shape (rows, 2)
    start
        Position of the first row.
    """
    positions = np.arange(start, start + len(hashes), dtype=np.uint64)
    return content_digest(mix(hashes, positions, _ORDER_SALT))
