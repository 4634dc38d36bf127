"""Cancelling a flow run that nobody supervises.

A worker stops a run that it started by a signal, which ends the Dask work at once. A run that was called in a script or
a notebook only gets the state Cancelling: it must look for it.
"""

# ruff: noqa: ARG002 - an observer takes what the protocol gives

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from prefect.client.orchestration import get_client

if TYPE_CHECKING:
    from shuffle_tasks.graph.progress import StageStats

CHECK_SECONDS = 2.0
"""Least time between two questions to the server while tasks finish."""


class FlowRunCancelled(BaseException):
    """The flow run was cancelled; not an `Exception`, since nothing has failed."""


class CancelWatch:
    """An observer that raises `FlowRunCancelled` out of the stage that runs, once the flow run is cancelled.

    Parameters
    ----------
    is_cancelled
        Asks the server.
    clock
        Monotonic seconds.
    """

    def __init__(self, is_cancelled: Callable[[], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self.is_cancelled = is_cancelled
        self.clock = clock
        self.last = 0.0

    def stage_started(self, stage: str, tasks: int) -> None:
        """Check, whenever the last check was."""
        self._check()

    def task_finished(self, stage: str, done: int, total: int) -> None:
        """Check, if the last check is old enough."""
        if self.clock() - self.last >= CHECK_SECONDS:
            self._check()

    def stage_finished(self, stage: str, stats: StageStats) -> None:
        """Do nothing: the next stage checks, and after the commit it is too late."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def _check(self) -> None:
        self.last = self.clock()
        if self.is_cancelled():
            raise FlowRunCancelled("the flow run was cancelled")


def ask_server(flow_run_id: str) -> bool:
    """Tell whether the flow run is being cancelled; no answer counts as no."""
    try:
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(UUID(flow_run_id)).state
    except Exception:  # noqa: BLE001 - whatever the server says
        return False
    return state is not None and (state.is_cancelling() or state.is_cancelled())
