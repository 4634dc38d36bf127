"""The measures have power: what is not uniform is rejected by the same functions at the same level, what is passes.

Which measures must reject which control (the others may or may not):

- a shuffle buffer keeps rows within some thousand places of where they were: all but the longest lag;
- a block shuffle keeps rows together: adjacent pairs, correlation at lags shorter than a block, and the contingency,
  whether or not the rows are shuffled inside the blocks;
- an affine map is too regular: neighbours always differ by the same amount (correlation at lag 1), and the rows of a
  block are spread too evenly over the chunks (the contingency). Its fixed points and adjacent pairs look random.
"""

from __future__ import annotations

import logging

import numpy as np
import pytest
from controls import affine_map, block_shuffle, many, shuffle_buffer
from measures import LAGS, LEVEL, MEASURES, SMALL_MEASURES, Order
from scipy import stats

LOG = logging.getLogger(__name__)
ROWS = 100_000
LOCAL = tuple(f"serial correlation, lag {lag}" for lag in LAGS if lag < 100)


def _random() -> np.random.Generator:
    return np.random.default_rng(20_240_229)


CONTROLS = {
    "shuffle buffer": (
        lambda: shuffle_buffer(ROWS, 1000, _random()),
        tuple(name for name in MEASURES if name != f"serial correlation, lag {LAGS[-1]}"),
    ),
    "block shuffle": (
        lambda: block_shuffle(ROWS, 100, _random(), inside=False), ("adjacent pairs", *LOCAL, "blocks by chunks"),
    ),
    "block shuffle, rows shuffled inside": (
        lambda: block_shuffle(ROWS, 100, _random(), inside=True), ("adjacent pairs", *LOCAL, "blocks by chunks"),
    ),
    "affine map": (
        lambda: affine_map(ROWS, _random()), ("serial correlation, lag 1", "blocks by chunks"),
    ),
}  # fmt: skip

SMALL_CONTROLS = {
    "shuffle buffer": ("all orders", "rows by places"),
    "block shuffle": ("all orders", "rows by places"),
    "block shuffle, rows shuffled inside": ("all orders",),
    "affine map": ("all orders",),
}
"""Blocks of two rows shuffled inside, and affine maps with a random shift, take all rows to all places: orders tell."""


@pytest.mark.parametrize("control", CONTROLS)
def test_large_controls_are_rejected(control: str) -> None:
    """Each measure that has to see what is wrong with a control rejects it."""
    make, rejecting = CONTROLS[control]
    order: Order = make()
    np.testing.assert_array_equal(np.sort(order), np.arange(ROWS))
    p_values = {name: measure(order) for name, measure in MEASURES.items()}
    LOG.info("%s: %s", control, p_values)
    assert {name for name in rejecting if p_values[name] > LEVEL} == set(), p_values


@pytest.mark.parametrize("control", SMALL_CONTROLS)
def test_small_controls_are_rejected(control: str) -> None:
    """As many orders of a few rows as come from the real path are enough to see what is wrong with a control."""
    n = 5 if control == "affine map" else 4
    orders = many(1200, control, n, _random())
    p_values = {name: measure(orders) for name, measure in SMALL_MEASURES.items()}
    LOG.info("%s: %s", control, p_values)
    assert {name for name in SMALL_CONTROLS[control] if p_values[name] > LEVEL} == set(), p_values


@pytest.mark.parametrize("measure", MEASURES)
def test_p_values_of_uniform_orders_are_uniform(measure: str) -> None:
    """Over many orders from NumPy's own shuffle, p-values fall below any level at most as often as they should."""
    random = np.random.default_rng(list(MEASURES).index(measure))
    p_values = [MEASURES[measure](random.permutation(50_000)) for _ in range(200)]
    assert stats.kstest(p_values, "uniform", alternative="greater").pvalue > LEVEL


@pytest.mark.parametrize("measure", SMALL_MEASURES)
def test_small_p_values_of_uniform_orders_are_uniform(measure: str) -> None:
    """The same for many orders of five rows."""
    random = np.random.default_rng(list(SMALL_MEASURES).index(measure))
    orders = random.permuted(np.tile(np.arange(5), (200 * 1200, 1)), axis=1).reshape(200, 1200, 5)
    p_values = [SMALL_MEASURES[measure](some) for some in orders]
    assert stats.kstest(p_values, "uniform", alternative="greater").pvalue > LEVEL
