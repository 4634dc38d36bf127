"""Who watches a run: a way to hand the command line's progress display to a flow, whose parameters are plain data."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shuffle_tasks.graph.progress import Observer, StageStats

_watcher: ContextVar[Observer | None] = ContextVar("pileshuffle_watcher", default=None)


@contextmanager
def watched_by(observer: Observer) -> Generator[None]:
    """Let `observer` see the flow runs that are called directly inside the block."""
    token = _watcher.set(observer)
    try:
        yield
    finally:
        _watcher.reset(token)


def current_watcher() -> Observer | None:
    """Return the observer of the enclosing `watched_by`, if any."""
    return _watcher.get()


class Several:
    """Several observers as one."""

    def __init__(self, *observers: Observer | None) -> None:
        self.observers = [observer for observer in observers if observer is not None]

    def stage_started(self, stage: str, tasks: int) -> None:
        """Tell every observer that a stage has started."""
        for observer in self.observers:
            observer.stage_started(stage, tasks)

    def task_finished(self, stage: str, done: int, total: int) -> None:
        """Tell every observer how many tasks are done."""
        for observer in self.observers:
            observer.task_finished(stage, done, total)

    def stage_finished(self, stage: str, stats: StageStats) -> None:
        """Tell every observer that a stage has finished."""
        for observer in self.observers:
            observer.stage_finished(stage, stats)

    def note(self, text: str) -> None:
        """Tell every observer something worth reading."""
        for observer in self.observers:
            observer.note(text)
