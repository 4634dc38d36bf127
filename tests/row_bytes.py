"""Rows of random bytes, and the row hash in plain Python integers: the oracle."""

import numpy as np
from numpy.typing import NDArray

from shuffle_tasks.randomness import KeyStream, Purpose
from shuffle_tasks.row_hash import RowHasher


def nbytes_of(rows: NDArray[np.generic]) -> int:
    """Return the bytes of one row."""
    return rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=int))


def hashes_of(*variables: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Hash rows of whole variables."""
    hasher = RowHasher([nbytes_of(rows) for rows in variables])
    sums = hasher.zeros(len(variables[0]))
    for variable, rows in enumerate(variables):
        hasher.add(sums, variable, rows)
    return hasher.finish(sums)


def finalise(value: int) -> int:
    """Apply splitmix64's finaliser, in Python's integers."""
    value = (value + 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)


def plain_hashes(*variables: list[bytes]) -> list[list[int]]:
    """Hash rows given as bytes by the documented formula, in Python's integers: the oracle."""
    result = []
    for row in zip(*variables, strict=True):
        sums = [sum(len(data) for data in row)] * 2
        for variable, data in enumerate(row):
            words = np.frombuffer(data.ljust(-(-len(data) // 8) * 8, b"\0"), "<u8").tolist()
            drawn = KeyStream(variable, purpose=Purpose.ROW_HASH).words(0, 4 * len(words)).reshape(-1, 4).tolist()
            for word, (a0, a1, b0, b1) in zip(words, drawn, strict=True):
                sums[0] += word * a0 + (word >> 32) * b0
                sums[1] += word * a1 + (word >> 32) * b1
        result.append([finalise(value % 2**64) for value in sums])
    return result


def random_bytes(rows: int, nbytes: int, seed: int = 0) -> NDArray[np.uint8]:
    """Return rows of random bytes."""
    words = KeyStream(seed).words(0, -(-rows * nbytes // 8))
    return words.view(np.uint8)[: rows * nbytes].reshape(rows, nbytes)
