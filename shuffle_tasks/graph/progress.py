"""What a run tells whoever watches it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class StageStats:
    """What one stage did.

    Attributes
    ----------
    stage : str
        Its name.
    tasks : int
        Tasks in all.
    found_done : int
        Tasks that an earlier attempt had already committed.
    seconds : float
        Wall time.
    bytes_read, bytes_written : int
        Stored bytes.
    task_seconds, digest_seconds : float
        Summed over its tasks: in all, and in the digests alone.
    """

    stage: str
    tasks: int = 0
    found_done: int = 0
    seconds: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    task_seconds: float = 0.0
    digest_seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values, without the name."""
        return {name: value for name, value in asdict(self).items() if name != "stage"}


class Observer(Protocol):
    """Watches a run. Calls come from the thread that runs it."""

    def stage_started(self, stage: str, tasks: int) -> None:
        """Say that a stage with so many tasks starts."""

    def task_finished(self, stage: str, done: int, total: int) -> None:
        """Say that one more task is done."""

    def stage_finished(self, stage: str, stats: StageStats) -> None:
        """Say that a stage is done."""

    def note(self, text: str) -> None:
        """Say something that a user should know."""


class SilentObserver:
    """An observer that does nothing."""

    def stage_started(self, stage: str, tasks: int) -> None:
        """Do nothing."""

    def task_finished(self, stage: str, done: int, total: int) -> None:
        """Do nothing."""

    def stage_finished(self, stage: str, stats: StageStats) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""
