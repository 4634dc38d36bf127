"""What a flow run leaves on its page: a progress bar for every stage of several tasks, and one summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from prefect.artifacts import create_markdown_artifact, create_progress_artifact, update_progress_artifact
from prefect.logging import get_run_logger

from flows.terminal import describe_stage
from shuffle_tasks.planning.sizes import format_bytes

if TYPE_CHECKING:
    from shuffle_tasks.graph.progress import StageStats
    from shuffle_tasks.report import ShuffleReport

UPDATE_SECONDS = 2.0
"""Least time between two updates of a progress artifact: each is a request to the server."""

SUMMARY_KEY = "shuffle-summary"


class ProgressArtifacts:
    """An observer that keeps one progress artifact a stage, and writes notes and finished stages to the run's log.

    The engine calls it inside the stage's Prefect task, to which the artifact therefore belongs. Progress is worth less
    than the shuffle: after a request that failed there are no further ones for that stage, and the run goes on.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.stage = ""
        self.artifact: UUID | None = None
        self.last = 0.0

    def stage_started(self, stage: str, tasks: int) -> None:
        """Create the artifact of a stage of several tasks; a stage of several steps starts once a step."""
        if stage != self.stage:
            self.stage, self.artifact = stage, None
        self.last = self.clock()
        if tasks > 1 and self.artifact is None:
            try:
                key, text = f"shuffle-progress-{stage}", f"{stage}: {tasks} tasks"
                self.artifact = cast(UUID, create_progress_artifact(0.0, key=key, description=text))
            except Exception as error:  # noqa: BLE001 - whatever the server says
                _warn(f"no progress artifact for {stage}: {error}")

    def task_finished(self, stage: str, done: int, total: int) -> None:
        """Update the artifact, if the last update is old enough."""
        if self.artifact is not None and total and self.clock() - self.last >= UPDATE_SECONDS:
            self._update(100.0 * done / total, f"{stage}: {done} of {total} tasks")

    def stage_finished(self, stage: str, stats: StageStats) -> None:
        """Complete the artifact and log what the stage did."""
        if self.artifact is not None:
            self._update(100.0, describe_stage(stage, stats))
        get_run_logger().info(describe_stage(stage, stats))

    def note(self, text: str) -> None:
        """Log the text."""
        get_run_logger().info(text)

    def _update(self, percent: float, description: str) -> None:
        self.last = self.clock()
        assert self.artifact is not None
        try:
            update_progress_artifact(self.artifact, percent, description=description)
        except Exception as error:  # noqa: BLE001 - whatever the server says
            self.artifact = None
            _warn(f"progress artifact not updated: {error}")


def publish_summary(report: ShuffleReport) -> None:
    """Store the summary of a run as a Markdown artifact; a server that refuses it does not fail a finished shuffle."""
    try:
        create_markdown_artifact(
            write_summary(report.to_dict()), key=SUMMARY_KEY, description=f"shuffle {report.target}"
        )
    except Exception as error:  # noqa: BLE001 - whatever the server says
        _warn(f"no summary artifact: {error}")


def write_summary(report: Mapping[str, Any]) -> str:
    """Return the certificate, the table of stages and the plan in short, in Markdown."""
    plan = report["plan"]
    lines = [f"# Shuffle {report['status']}", ""]
    lines += [f"- **target** `{report['target']}`", f"- **rows** {report['n']:,}"]
    lines += [f"- **seed** {report['seed']}, **epoch** {report['epoch']}", f"- **run** `{report['run_id']}`", ""]
    lines += ["## Certificate", "", "| digest | value |", "| --- | --- |"]
    lines += [f"| {name} | `{value}` |" for name, value in report["digests"].items()]
    lines += ["", "## Stages", "", "| stage | seconds | read | written |", "| --- | ---: | ---: | ---: |"]
    lines += [_stage_row(name, stats) for name, stats in report["stages"].items()]
    lines += [
        "",
        "## Plan",
        "",
        f"- {plan['scatter_tasks']:,} scatter tasks, {plan['piles']:,} piles of {plan['pile_rows']:,} rows",
    ]
    lines += [
        f"- {plan['levels']} scatter levels, consolidation: {plan['consolidation']}",
        f"- limited by {plan['limits']}",
    ]
    return "\n".join([*lines, *(f"- {note}" for note in plan.get("notes", ())), ""])


def _stage_row(name: str, stats: Mapping[str, Any]) -> str:
    read, written = format_bytes(stats["bytes_read"]), format_bytes(stats["bytes_written"])
    return f"| {name} | {stats['seconds']:.2f} | {read} | {written} |"


def _warn(text: str) -> None:
    get_run_logger().warning(text)
