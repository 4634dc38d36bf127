"""Progress on standard error: bars on a terminal, plain lines elsewhere."""

# ruff: noqa: ARG002 - an observer takes what the protocol gives

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from shuffle_tasks.planning.sizes import format_bytes

if TYPE_CHECKING:
    from shuffle_tasks.graph.progress import Observer, StageStats

LINE_SECONDS = 5.0
"""Least time between two plain lines of one stage."""


def describe_stage(stage: str, stats: StageStats) -> str:
    """Return what a finished stage did, in one line."""
    moved = f", read {format_bytes(stats.bytes_read)}, wrote {format_bytes(stats.bytes_written)}"
    return f"{stage}: {stats.seconds:.1f} s" + (moved if stats.bytes_read or stats.bytes_written else "")


class PlainLines:
    """An observer that writes whole lines, at most one in `LINE_SECONDS` while a stage runs."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.write = write
        self.clock = clock
        self.last = 0.0

    def stage_started(self, stage: str, tasks: int) -> None:
        """Remember when the stage started; short stages write one line, at their end."""
        self.last = self.clock()

    def task_finished(self, stage: str, done: int, total: int) -> None:
        """Write a line if the last one is old enough."""
        if self.clock() - self.last >= LINE_SECONDS and done < total:
            self.last = self.clock()
            self.write(f"{stage}: {done} of {total} tasks ({done / total:.0%})")

    def stage_finished(self, stage: str, stats: StageStats) -> None:
        """Write what the stage did."""
        self.write(describe_stage(stage, stats))

    def note(self, text: str) -> None:
        """Write the text."""
        self.write(text)


class Bars:
    """An observer that draws one progress bar a stage."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.bars: dict[str, TaskID] = {}

    def stage_started(self, stage: str, tasks: int) -> None:
        """Add the bar of the stage; a stage of several steps starts once a step, and fills its bar again."""
        if stage not in self.bars:
            self.bars[stage] = self.progress.add_task(stage, total=tasks or None)
        elif tasks:
            self.progress.update(self.bars[stage], completed=0, total=tasks)

    def task_finished(self, stage: str, done: int, total: int) -> None:
        """Move the bar."""
        self.progress.update(self.bars[stage], completed=done, total=total)

    def stage_finished(self, stage: str, stats: StageStats) -> None:
        """Replace the bar by one line."""
        self.progress.remove_task(self.bars.pop(stage))
        self.progress.console.print(describe_stage(stage, stats), highlight=False)

    def note(self, text: str) -> None:
        """Print the text above the bars."""
        self.progress.console.print(text, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def show_progress(console: Console) -> Generator[Observer]:
    """Yield the observer that suits the console, which should write to standard error."""
    if not console.is_terminal:
        yield PlainLines(lambda text: console.print(text, highlight=False, markup=False, soft_wrap=True))
        return
    columns = (
        TextColumn("{task.description:>8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bars(progress)
