"""Defaults of Prefect that a shuffle needs, and where a flow run can be seen.

Without `PREFECT_API_URL`, Prefect starts a temporary server for the run. On a busy machine that takes longer than
Prefect's own limit, and prefect reads its settings when it is imported: so these defaults are environment variables,
set before, and what the user has set wins.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

PREFECT_DEFAULTS = {
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}

QUIET_CONSOLE = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}
"""The server keeps every log line; the command line shows progress and errors itself, each once."""


def set_prefect_defaults(*, quiet: bool = False) -> None:
    """Set the defaults in the environment, where nothing is set; to be called before prefect is imported."""
    for name, value in (PREFECT_DEFAULTS | (QUIET_CONSOLE if quiet else {})).items():
        os.environ.setdefault(name, value)


def start_server(note: Callable[[str], None]) -> None:
    """Start Prefect's temporary server, if no server is configured, out of the reach of Ctrl-C.

    A terminal sends Ctrl-C to every process of the foreground group. The run needs its server to record that it was
    interrupted: so the server is started from a thread that blocks SIGINT, which a child process inherits.
    """
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    if PREFECT_API_URL.value():
        return

    def start() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            get_client(sync_client=True)
        except Exception as error:  # noqa: BLE001 - raised in the calling thread
            failures.append(error)

    failures: list[Exception] = []
    note("starting a temporary Prefect server")
    thread = threading.Thread(target=start, name="start-prefect-server", daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def describe_flow_run(name: str, run_id: str) -> str:
    """Return where the flow run can be seen: its page, or how to get one when the server is temporary."""
    from prefect.settings import PREFECT_API_URL
    from prefect.utilities.urls import url_for

    if PREFECT_API_URL.value():
        return f'flow run "{name}": {url_for("flow-run", run_id)}'
    return (
        f'flow run "{name}", id {run_id}: kept by a temporary Prefect server. To see it, run `prefect server start` '
        f"and open http://127.0.0.1:4200/runs/flow-run/{run_id}; with PREFECT_API_URL=http://127.0.0.1:4200/api "
        "later runs are shown there while they run"
    )
