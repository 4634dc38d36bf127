"""Defaults of Prefect that a shuffle needs, and where a flow run can be seen.

Without `PREFECT_API_URL`, Prefect starts a temporary server for the run. On a busy machine that takes longer than
Prefect's own limit, and prefect reads its settings when it is imported: so these defaults are environment variables,
set before, and what the user has set wins.
"""

from __future__ import annotations

import os

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
