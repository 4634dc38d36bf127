"""Fixtures that several test modules share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def client_of() -> Iterator[Callable[[int], Any]]:
    """Return a function that gives the client of a cluster of so many worker processes; clusters are shared."""
    from distributed import Client, LocalCluster

    with contextlib.ExitStack() as stack:
        clients: dict[int, Any] = {}

        def client(workers: int) -> Any:
            if workers not in clients:
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                )
                stack.enter_context(cluster)
                clients[workers] = stack.enter_context(Client(cluster, set_as_default=False))
            return clients[workers]

        yield client
