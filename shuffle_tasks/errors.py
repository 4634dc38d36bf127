"""The errors of the package: one small tree, so that a caller can tell a wrong request from a failed run.

Every message gives the rule, the value that broke it, and what to do.
"""

from __future__ import annotations


class ShuffleError(Exception):
    """Base of every error that pileshuffle raises on purpose."""


class RequestError(ShuffleError, ValueError):
    """The request is wrong and was refused before any work started (exit code 2)."""


class RunError(ShuffleError, RuntimeError):
    """The run failed; finished tasks keep their commit records (exit code 1)."""


class StorageError(RunError):
    """Stored data is missing or damaged; the message names the variable and the chunk key."""


class DamagedPileError(StorageError):
    """A chunk of a pile is missing or damaged.

    Parameters
    ----------
    message
        Names the chunk.
    stage, task
        The commit record of the task that wrote it: without the record, the next attempt writes it anew.
    """

    def __init__(self, message: str, stage: str, task: int) -> None:
        super().__init__(message, stage, task)
        self.stage = stage
        self.task = task

    def __str__(self) -> str:
        """Return the message alone."""
        return f"{self.args[0]}; repeat the same command: it writes these rows anew"


class CertificateError(RunError):
    """The certificate of a run does not agree: rows were lost, repeated, changed or misplaced.

    The next attempt starts anew: what was written cannot be trusted.
    """
