"""Measures of how random an order is: pure functions from an order, or from many, to a p-value.

An order is the array of source rows by target row. Every function gives the probability, under uniformly random
orders, of a statistic at least as unusual as the one seen, on both sides: an order can also be too regular.

The error rate: the checks of this folder on orders that must pass (`CHECKS` of them) share `ERROR_RATE` equally
(Bonferroni). All of them together reject a perfect shuffle with a probability of at most 10^-4; one check rejects at
`LEVEL`. All seeds are fixed: what passes once passes always. What must be rejected is rejected at the same level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Order = NDArray[np.int64]

ERROR_RATE = 1e-4
CHECKS = 32
LEVEL = ERROR_RATE / CHECKS

LAGS = (1, 2, 3, 10, 100, 1000, 10_000)
BLOCKS = 25


def fixed_points(order: Order) -> float:
    """Return the p-value of the number of rows that stay where they are: Poisson of mean 1."""
    return _poisson(int(np.count_nonzero(order == np.arange(len(order)))), 1.0)


def adjacent_pairs(order: Order) -> float:
    """Return the p-value of the number of neighbours that stay neighbours, either way: Poisson of mean 2 - 2/n."""
    return _poisson(int(np.count_nonzero(np.abs(np.diff(order)) == 1)), 2.0 - 2.0 / len(order))


def serial_correlation(order: Order, lag: int) -> float:
    """Return the p-value of the circular correlation of rows `lag` places apart.

    Under random orders its mean is -1/(n - 1) and its variance about 1/n. Not for a lag of n/2, which counts every pair
    twice.

    References
    ----------
    .. [1] A. Wald, J. Wolfowitz, "An exact test for randomness in the non-parametric case based on serial correlation",
       Annals of Mathematical Statistics 14 (1943).
    """
    return _correlation(order, np.roll(order, lag), mean=-1 / (len(order) - 1))


def trend(order: Order) -> float:
    """Return the p-value of the correlation of rows with their places: what is left of the order that was."""
    return _correlation(order, np.arange(len(order)), mean=0.0)


def blocks_by_chunks(order: Order, blocks: int = BLOCKS) -> float:
    """Return the p-value of the contingency of source blocks by target chunks, `blocks` of each.

    A cell counts the rows of a source block in a target chunk; chi-square with (blocks - 1)^2 degrees of freedom. Both
    margins are fixed, hence the factor (n - 1) / n.
    """
    n = len(order)
    source, target = order * blocks // n, np.arange(n) * blocks // n
    table = np.bincount(source * blocks + target, minlength=blocks**2).reshape(blocks, blocks)
    expected = np.outer(table.sum(1), table.sum(0)) / n
    return _chi_square((n - 1) / n * float(((table - expected) ** 2 / expected).sum()), (blocks - 1) ** 2)


MEASURES: Mapping[str, Callable[[Order], float]] = {
    "fixed points": fixed_points,
    "adjacent pairs": adjacent_pairs,
    **{f"serial correlation, lag {lag}": partial(serial_correlation, lag=lag) for lag in LAGS},
    "trend": trend,
    "blocks by chunks": blocks_by_chunks,
}
"""For one order of many rows."""


def all_orders(orders: NDArray[Any]) -> float:
    """Return the p-value of the counts of all n! orders: chi-square, for many orders of a few rows.

    Parameters
    ----------
    orders : ndarray of int, shape (orders, n)
    """
    n = orders.shape[1]
    number = {order: position for position, order in enumerate(permutations(range(n)))}
    counts = np.bincount([number[tuple(order)] for order in orders.tolist()], minlength=math.factorial(n))
    expected = len(orders) / len(counts)
    return _chi_square(float(((counts - expected) ** 2 / expected).sum()), len(counts) - 1)


def rows_by_places(orders: NDArray[Any]) -> float:
    """Return the p-value of the table of rows by places: chi-square, for many orders of a few rows.

    Every order adds a permutation matrix. The covariance of its cells is 1/(n - 1) on the (n - 1)^2 dimensions that the
    fixed margins leave, hence the factor (n - 1) / n.

    Parameters
    ----------
    orders : ndarray of int, shape (orders, n)
    """
    n = orders.shape[1]
    table = np.stack([np.bincount(orders[:, place], minlength=n) for place in range(n)])
    expected = len(orders) / n
    return _chi_square((n - 1) / n * float(((table - expected) ** 2 / expected).sum()), (n - 1) ** 2)


SMALL_MEASURES: Mapping[str, Callable[[NDArray[Any]], float]] = {
    "all orders": all_orders,
    "rows by places": rows_by_places,
}
"""For many orders of a few rows."""


def _both_sides(lower: float, upper: float) -> float:
    return min(1.0, 2.0 * min(lower, upper))


def _poisson(count: int, mean: float) -> float:
    return _both_sides(float(stats.poisson.cdf(count, mean)), float(stats.poisson.sf(count - 1, mean)))


def _chi_square(statistic: float, freedom: int) -> float:
    return _both_sides(float(stats.chi2.cdf(statistic, freedom)), float(stats.chi2.sf(statistic, freedom)))


def _correlation(one: Order, other: Order, mean: float) -> float:
    """Return the p-value of the correlation of two arrangements of 0, 1, …, n - 1, whose variance is about 1/n."""
    n = len(one)
    middle = (n - 1) / 2
    found = float(np.dot(one - middle, other - middle)) / (n * (n * n - 1) / 12)
    return float(2 * stats.norm.sf(abs(found - mean) * math.sqrt(n)))
