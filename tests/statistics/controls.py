"""What must be rejected: the usual ways to shuffle more than fits in memory, which are not uniform.

All are functions from a number of rows to an order (source rows by target row), or for a few rows to many orders.
"""

from __future__ import annotations

import math

import numpy as np
from measures import Order
from numpy.typing import NDArray


def shuffle_buffer(n: int, size: int, random: np.random.Generator) -> Order:
    """Return the order of a streaming buffer: each new row takes the place of a random row, which goes out."""
    buffer, order = list(range(min(size, n))), []
    for row in range(size, n):
        place = int(random.integers(size))
        order.append(buffer[place])
        buffer[place] = row
    return np.array(order + random.permutation(buffer).tolist(), np.int64)


def block_shuffle(n: int, size: int, random: np.random.Generator, *, inside: bool) -> Order:
    """Return the order of permuted whole blocks of `size` rows; `inside` shuffles the rows of each block too."""
    rows = random.permutation(n // size)[:, np.newaxis] * size + np.arange(size)
    return (random.permuted(rows, axis=1) if inside else rows).ravel()


def affine_map(n: int, random: np.random.Generator) -> Order:
    """Return the order i -> (a * i + b) mod n, with a random invertible a and a random b."""
    factors = [int(a) for a in random.integers(1, n, 1000) if math.gcd(int(a), n) == 1]
    return (factors[0] * np.arange(n, dtype=np.int64) + int(random.integers(n))) % n


def many(orders: int, control: str, n: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return many orders of `n` rows by one of the controls, with a buffer or blocks of two rows."""
    make = {
        "shuffle buffer": lambda: shuffle_buffer(n, 2, random),
        "block shuffle": lambda: block_shuffle(n, 2, random, inside=False),
        "block shuffle, rows shuffled inside": lambda: block_shuffle(n, 2, random, inside=True),
        "affine map": lambda: affine_map(n, random),
    }[control]
    return np.stack([make() for _ in range(orders)])
