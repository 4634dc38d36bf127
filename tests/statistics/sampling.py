"""Orders as the real path makes them: rows carry their number through `run_shuffle`, and are read from the target."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from shuffle_tasks import ShuffleConfig, run_shuffle

Sizes = dict[str, int]
"""The fields `pile_rows`, `scatter_rows` and `levels` of a request."""


def write_numbers(path: str, n: int, chunk_rows: int) -> None:
    """Write a dataset of `n` rows that carry their number."""
    zarr.create_array(path, data=np.arange(n, dtype=np.int32), chunks=(chunk_rows,))


def shuffled_numbers(source: str, target: str, seed: int, sizes: Sizes) -> NDArray[np.int64]:
    """Return the source rows by target row after one real run in this thread; the target is removed again."""
    fields: dict[str, Any] = {"source": source, "target": target, "seed": seed, **sizes}
    config = ShuffleConfig(memory=2**30, scheduler="synchronous", **fields)
    report = run_shuffle(config)
    assert report.plan["piles"] > 1
    assert report.plan["levels"] == sizes["levels"]
    rows: Any = zarr.open_array(target, mode="r")[:]
    shutil.rmtree(target)
    return np.asarray(rows, np.int64)


def _sample_seeds(source: str, target: str, seeds: Sequence[int], sizes: Sizes) -> list[list[int]]:
    return [shuffled_numbers(source, target, seed, sizes).tolist() for seed in seeds]


def many_orders(folder: str, n: int, seeds: range, configurations: Sequence[Sizes]) -> list[NDArray[np.int64]]:
    """Return real orders of `n` rows: for each configuration its share of the seeds, shape (orders, n).

    One process a core; runs do not know of each other.
    """
    source, cores = f"{folder}/numbers-{n}.zarr", len(os.sched_getaffinity(0))
    write_numbers(source, n, 1)
    jobs = [
        (number, seeds[number + len(configurations) * part :: len(configurations) * cores])
        for number, part in itertools.product(range(len(configurations)), range(cores))
    ]
    found: list[list[list[int]]] = [[] for _ in configurations]
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [
            pool.submit(_sample_seeds, source, f"{folder}/{n}-{k}-{part[0]}.zarr", part, configurations[k])
            for k, part in jobs
        ]
        for (number, _), future in zip(jobs, futures, strict=True):
            found[number] += future.result()
    return [np.array(orders, np.int64) for orders in found]
