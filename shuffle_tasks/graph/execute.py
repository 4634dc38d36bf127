"""Run the tasks of a stage: in the calling thread, or on Dask workers in a bounded window.

    tasks ──submit──▶ [ window: at most 2 a slot + 2 in flight ] ──as_completed──▶ record ──release──▶ next submit

The graph never holds more than the window, and a finished future is released at once: Dask would run a finished task
again if the worker that holds its result died.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from shuffle_tasks.errors import RunError

Task = Callable[[Any], Any]


class Executor(Protocol):
    """Runs independent tasks of one stage."""

    slots: int

    def run(self, stage: str, function: Task, arguments: Iterable[Any]) -> Iterator[Any]:
        """Yield the results in the order in which tasks finish; stop at the first failure and cancel the rest."""


class SynchronousExecutor:
    """Runs tasks one after the other in the calling thread."""

    slots = 1

    def run(self, stage: str, function: Task, arguments: Iterable[Any]) -> Iterator[Any]:  # noqa: ARG002
        """Yield the results in order."""
        return (function(argument) for argument in arguments)


class DaskExecutor:
    """Runs tasks on the workers of a Dask client.

    Parameters
    ----------
    client
        A `distributed.Client`, synchronous.
    run_id
        Part of every task's key, so that two runs on one cluster do not share tasks.
    slots
        Worker threads of the cluster.
    """

    def __init__(self, client: Any, run_id: str, slots: int) -> None:
        self.client = client
        self.run_id = run_id
        self.slots = slots
        self._serial = itertools.count()

    def run(self, stage: str, function: Task, arguments: Iterable[Any]) -> Iterator[Any]:
        """Yield the results in the order in which tasks finish.

        Raises
        ------
        RunError
            If workers die while they run a task, again and again.
        Exception
            Whatever a task raises; the tasks in flight are cancelled.
        """
        from distributed import KilledWorker, as_completed, span

        waiting = iter(arguments)
        with span("pileshuffle", stage):
            futures = [self._submit(stage, function, a) for a in itertools.islice(waiting, 2 * self.slots + 2)]
        flight = as_completed(futures, loop=self.client.loop)
        try:
            for future in flight:
                result = future.result()
                future.release()
                for argument in itertools.islice(waiting, 1):
                    with span("pileshuffle", stage):
                        flight.add(self._submit(stage, function, argument))
                yield result
        except KilledWorker as error:
            raise RunError(f"workers died while they ran a task of the stage {stage}: {error}") from error
        finally:
            self.client.cancel(list(flight.futures))
            flight.clear()

    def _submit(self, stage: str, function: Task, argument: Any) -> Any:
        key = f"{stage}-{next(self._serial):05d}-{self.run_id}"
        return self.client.submit(function, argument, key=key, pure=False)
