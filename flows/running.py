"""Run a request from the command line, through the Prefect flow or directly, with its progress on a console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.terminal import show_progress
from shuffle_tasks import is_complete, plan_shuffle, run_shuffle

if TYPE_CHECKING:
    from rich.console import Console

    from shuffle_tasks.planning.config import ShuffleConfig
    from shuffle_tasks.report import ShuffleReport


def run_request(config: ShuffleConfig, console: Console, *, direct: bool) -> ShuffleReport:
    """Run a request, without Prefect if `direct` or if it has nothing to do.

    Raises
    ------
    RequestError
        If the request is wrong; before a Prefect server is started for it.
    """
    if direct or is_complete(config):
        with show_progress(console) as observer:
            return run_shuffle(config, observer=observer)
    plan_shuffle(config)
    return run_flow(config, console)


def run_flow(config: ShuffleConfig, console: Console) -> ShuffleReport:
    """Run the Prefect flow in this process; its server is started if none is configured."""
    from flows.schedule import literal_target
    from flows.server import set_prefect_defaults, start_server
    from flows.watching import watched_by

    set_prefect_defaults(quiet=True)
    from flows import shuffle_dataset

    request = config.model_copy(update={"target": literal_target(config.target)})
    with show_progress(console) as observer, watched_by(observer):
        start_server(observer.note)
        return shuffle_dataset(request)
