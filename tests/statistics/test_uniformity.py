"""Orders from the real path pass every measure. See `measures` for the error rate."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator

import numpy as np
import pytest
from measures import CHECKS, LEVEL, MEASURES, SMALL_MEASURES, Order
from numpy.typing import NDArray
from sampling import Sizes, many_orders, shuffled_numbers, write_numbers

LOG = logging.getLogger(__name__)
IN_MEMORY = "/dev/shm"

SEEDS = {4: range(1200), 5: range(10_000, 11_200)}
"""By number of rows: 50 runs for each of the 24 orders, and 10 for each of the 120."""

SMALL_SIZES: list[Sizes] = [
    {"pile_rows": 1, "scatter_rows": 1, "levels": 1},
    {"pile_rows": 2, "scatter_rows": 2, "levels": 1},
    {"pile_rows": 1, "scatter_rows": 2, "levels": 2},
]

LARGE_ROWS = 100_000
LARGE_SIZES: list[Sizes] = [
    {"pile_rows": 4000, "scatter_rows": 4000, "levels": 1},
    {"pile_rows": 2000, "scatter_rows": 10_000, "levels": 2},
]


@pytest.fixture(scope="module")
def fast_folder() -> Iterator[str]:
    """Return a folder in memory if there is one: thousands of runs write a hundred small files each."""
    place = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield folder


@pytest.fixture(scope="module")
def small_orders(fast_folder: str) -> dict[int, list[NDArray[np.int64]]]:
    """Return orders of 4 and of 5 rows, by configuration."""
    return {n: many_orders(fast_folder, n, seeds, SMALL_SIZES) for n, seeds in SEEDS.items()}


@pytest.fixture(scope="module")
def large_orders(fast_folder: str) -> list[Order]:
    """Return the orders of single runs over many rows, by configuration."""
    source, target = f"{fast_folder}/in.zarr", f"{fast_folder}/out.zarr"
    write_numbers(source, LARGE_ROWS, 2000)
    return [shuffled_numbers(source, target, 77 + number, sizes) for number, sizes in enumerate(LARGE_SIZES)]


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("measure", SMALL_MEASURES)
def test_small_orders_are_uniform(small_orders: dict[int, list[NDArray[np.int64]]], measure: str, n: int) -> None:
    """All n! orders are equally likely, and every row is equally likely at every place."""
    p_value = SMALL_MEASURES[measure](np.concatenate(small_orders[n]))
    LOG.info("%s: p = %.3g", measure, p_value)
    assert p_value > LEVEL


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("configuration", range(len(SMALL_SIZES)))
def test_each_configuration_alone_is_uniform(
    small_orders: dict[int, list[NDArray[np.int64]]], configuration: int, n: int
) -> None:
    """Every row is equally likely at every place, whatever the piles, tasks and levels."""
    p_value = SMALL_MEASURES["rows by places"](small_orders[n][configuration])
    LOG.info("rows by places: p = %.3g", p_value)
    assert p_value > LEVEL


@pytest.mark.parametrize("configuration", range(len(LARGE_SIZES)))
@pytest.mark.parametrize("measure", MEASURES)
def test_a_large_order_passes_every_measure(large_orders: list[Order], measure: str, configuration: int) -> None:
    """One run over many rows leaves no trace of the order that was, nor of piles and chunks."""
    p_value = MEASURES[measure](large_orders[configuration])
    LOG.info("%s: p = %.3g", measure, p_value)
    assert p_value > LEVEL


def test_orders_hold_every_row_once(
    large_orders: list[Order], small_orders: dict[int, list[NDArray[np.int64]]]
) -> None:
    """What is measured are orders: every row once."""
    for order in large_orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(LARGE_ROWS))
    for n, configurations in small_orders.items():
        orders = np.concatenate(configurations)
        assert orders.shape == (len(SEEDS[n]), n)
        assert (np.sort(orders, axis=1) == np.arange(n)).all()


def test_the_error_rate_counts_every_check() -> None:
    """The level of a check is the overall error rate shared by all checks on orders that must pass."""
    small = len(SEEDS) * (len(SMALL_MEASURES) + len(SMALL_SIZES))
    assert small + len(LARGE_SIZES) * len(MEASURES) == CHECKS
