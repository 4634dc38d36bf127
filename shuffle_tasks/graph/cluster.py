"""The Dask side of a run: the workers, the memory of each, and a local cluster with a sound allocator setting."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil

from shuffle_tasks.errors import RequestError
from shuffle_tasks.planning.config import ShuffleConfig

DEFAULT_SHARE = 0.6
"""Share of the available memory, or of a worker's limit, that data buffers may take."""

CONNECT_SECONDS = 15
MMAP_THRESHOLD = 32 * 2**20
"""The largest that glibc takes: smaller buffers are reused from the heap, not mapped and faulted in anew."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What the workers have together: threads, and bytes of data buffers for each."""

    slots: int
    budget: int


def local_slots(config: ShuffleConfig) -> int:
    """Return the local workers: one a core that this process may use, unless the request says."""
    if config.scheduler == "synchronous":
        return 1
    return config.workers or len(os.sched_getaffinity(0))


def local_resources(config: ShuffleConfig) -> Resources:
    """Return the resources of local workers, or of the calling thread."""
    slots = local_slots(config)
    memory = config.memory or int(available_memory() * DEFAULT_SHARE)
    return Resources(slots, memory // slots)


def available_memory() -> int:
    """Return the bytes of memory that are free for use, within this process's control group."""
    free = int(psutil.virtual_memory().available)
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError), open(name, encoding="ascii") as file:
            free = min(free, int(file.read()))
    return free


def cluster_resources(client: Any, config: ShuffleConfig) -> Resources:
    """Return the resources of a client's workers: the smallest worker's limit counts for all.

    Raises
    ------
    RequestError
        If no worker comes within the connection time.
    """
    with contextlib.suppress(TimeoutError):
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not workers:
        raise RequestError(f"the scheduler {client.scheduler.address} has no workers: start some first")
    slots = sum(worker["nthreads"] for worker in workers)
    limits = [int(w["memory_limit"] * DEFAULT_SHARE) // w["nthreads"] for w in workers if w["memory_limit"]]
    if config.memory or not limits:
        limits.append((config.memory or int(available_memory() * DEFAULT_SHARE)) // slots)
    return Resources(slots, min(limits))


def connect(address: str) -> Any:
    """Return a client of the scheduler at `address`.

    Raises
    ------
    RequestError
        If it cannot be reached.
    """
    from distributed import Client

    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise RequestError(f"the scheduler {address} cannot be reached within {CONNECT_SECONDS} s: {error}") from error


@contextlib.contextmanager
def local_client(slots: int, budget: int) -> Iterator[Any]:
    """Start one worker process a slot on the loopback address, and yield a client; both are closed at the end.

    The nanny's own settings switch off glibc's adaptive mmap threshold, so that each buffer over 128 KiB would be
    mapped and faulted in anew, which halves the speed; ours must be in the environment before the worker is exec'ed.
    """
    from distributed import Client, LocalCluster

    with _environment(
        MALLOC_MMAP_THRESHOLD_=str(MMAP_THRESHOLD), MALLOC_TRIM_THRESHOLD_=str(min(max(budget // 8, 8 * 2**20), 2**30))
    ):
        cluster = LocalCluster(
            n_workers=slots,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            silence_logs=logging.CRITICAL,
            host="127.0.0.1",
            dashboard_address=f"127.0.0.1:{_dashboard_port()}",
        )
        with cluster, Client(cluster, set_as_default=False) as client:
            client.run(_ignore_interrupts)
            yield client


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set environment variables for a while.

    Dask's configuration would do for the first cluster of a process only: its nannies leave their settings in the
    environment, which then comes before the configuration.
    """
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _ignore_interrupts() -> None:
    """Leave Ctrl-C, which a terminal sends to all its processes, to the process that started the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _dashboard_port() -> int:
    """Return Dask's usual port if it is free, else 0 (any)."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", 8787))
        except OSError:
            return 0
    return 8787


def allocator_note(client: Any) -> str | None:
    """Return a warning if workers that we did not start run with the nanny's slow allocator setting."""
    settings = client.run(os.environ.get, "MALLOC_MMAP_THRESHOLD_")
    if all(settings.values()):
        return None
    return (
        "the workers run with Dask's default allocator setting, which makes chunk work about twice as slow: "
        "start them as "
        f"MALLOC_MMAP_THRESHOLD_={MMAP_THRESHOLD} MALLOC_TRIM_THRESHOLD_={8 * MMAP_THRESHOLD} dask worker ..."
    )
