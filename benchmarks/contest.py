"""A contest: one workload, its source, and the processes that are ready to work on it."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import zarr

from benchmarks.workloads import Workload, arrays_of, make_source, warm_page_cache
from shuffle_tasks import Permutation, ShuffleConfig
from shuffle_tasks.graph.cluster import local_client

SEED = 1


@dataclass(frozen=True, slots=True)
class Contest:
    """One workload, and what all contenders share.

    Attributes
    ----------
    workload : Workload
        What is shuffled.
    source, folder : str
        The source, and where targets are put.
    client : distributed.Client
        Of a local cluster as the shuffle starts it, with the workload's number of worker processes, running.
    plain_client : distributed.Client
        Of a `LocalCluster` of as many workers with Dask's own settings, running.
    pool : ProcessPoolExecutor
        As many processes, running, with zarr-python imported.
    levels : int or None
        Scatter levels, None for what the planner chooses (data as small as in the tests would not be scattered at all).
    part : float
        The share of the rows that slow peers are given; their times are extrapolated linearly.
    limit : float
        Seconds after which a slow peer is stopped.
    sample : int
        Rows that are read one by one.
    """

    workload: Workload
    source: str
    folder: str
    client: Any
    plain_client: Any
    pool: ProcessPoolExecutor
    levels: int | None = None
    part: float = 1 / 8
    limit: float = 300.0
    sample: int = 200

    def config(self, target: str) -> ShuffleConfig:
        """Return our request."""
        return ShuffleConfig(
            source=self.source, target=target, seed=SEED, memory=self.workload.memory, workers=self.workload.workers,
            levels=self.levels,
        )  # fmt: skip

    def part_rows(self) -> int:
        """Return the rows that a slow peer is given: whole chunks."""
        chunk = max(variable.chunk_rows for variable in self.workload.variables)
        return min(self.workload.rows, max(1, round(self.workload.rows * self.part / chunk)) * chunk)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of a contender took.

    Attributes
    ----------
    seconds : float
        For the whole workload; extrapolated linearly if only a part was done.
    measured : float
        That were measured.
    note : str
        What was extrapolated and how; "" if nothing.
    report : mapping
        Of our own run, else {}.
    """

    seconds: float
    measured: float
    note: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to do the work, or something to compare it with.

    Attributes
    ----------
    name, text : str
        Short, and in words.
    run : callable
        Runs it once, from the contest and a target that does not exist.
    result : str
        What the target must hold: "copy", "shuffled", "part" (a shuffle of the first `Contest.part_rows`), "nothing".
    needs : str or None
        A module that may not be installed.
    """

    name: str
    text: str
    run: Callable[[Contest, str], Outcome]
    result: str
    needs: str | None = None


def prepare_process() -> None:
    """Make zarr-python write every chunk, as the shuffle does, without comparing each with the fill value first."""
    zarr.config.set({"array.write_empty_chunks": True})


@contextlib.contextmanager
def open_contest(workload: Workload, folder: str, **settings: Any) -> Iterator[Contest]:
    """Make the source, read it into the page cache, start all processes, and yield the contest."""
    source = make_source(workload, folder)
    warm_page_cache(source)
    workers = workload.workers
    with (
        zarr.config.set({"array.write_empty_chunks": True}),
        ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=prepare_process) as pool,
        local_client(workers, workload.memory // workers) as client,
        start_plain_client(workers) as plain_client,
    ):
        list(pool.map(time.sleep, [0.2] * workers))
        client.run(prepare_process)
        yield Contest(workload, source, folder, client, plain_client, pool, **settings)


@contextlib.contextmanager
def start_plain_client(workers: int) -> Iterator[Any]:
    """Start a cluster as Dask's documentation does, one thread a worker as for all contenders, and yield a client."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, memory_limit=0, host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        yield client


def warm_up(contest: Contest, contenders: Sequence[Contender]) -> None:
    """Run every contender once on one chunk of rows, so that no process imports anything while the clock runs."""
    variables = contest.workload.variables
    rows = min(contest.workload.rows, max(variable.chunk_rows for variable in variables))
    small = replace(contest.workload, rows=rows)
    less = replace(
        contest, workload=small, source=make_source(small, contest.folder), part=1.0, sample=contest.workload.workers
    )
    for contender in contenders:
        run_once(less, contender, check=False)


def run_once(contest: Contest, contender: Contender, *, check: bool) -> Outcome:
    """Run a contender once on a fresh target, which is deleted afterwards.

    Dirty pages are written to disk before, so that nobody pays for another's; nothing is dropped from the page cache.

    Raises
    ------
    ValueError
        If its result is to be checked and is wrong.
    """
    target = os.path.join(contest.folder, f"target-{contender.name.replace(', ', '-').replace(' ', '-')}.zarr")
    delete_target(target)
    os.sync()
    outcome = contender.run(contest, target)
    if check:
        check_result(contest, contender, target)
    delete_target(target)
    return outcome


def delete_target(target: str) -> None:
    """Remove a target and its work directory."""
    for path in (target, f"{target}.work"):
        shutil.rmtree(path, ignore_errors=True)


def check_result(contest: Contest, contender: Contender, target: str) -> None:
    """Compare a target with the source in memory; for small workloads.

    Raises
    ------
    ValueError
        If a row is wrong.
    """
    if contender.result == "nothing":
        return
    rows = contest.part_rows() if contender.result == "part" else contest.workload.rows
    order = np.arange(rows) if contender.result == "copy" else Permutation(rows, SEED).source_rows(0, rows)
    found, source = arrays_of(target), arrays_of(contest.source)
    for name, array in source.items():
        wanted = np.asarray(array[:rows])[order]
        if name not in found or not np.array_equal(np.asarray(found[name][:]), wanted):
            raise ValueError(f"{contender.name}: the array {name or '(root)'!r} of {target} is not what it should be")
