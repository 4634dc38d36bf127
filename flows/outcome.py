"""How a command ends: one answer on standard output, one message on standard error, and an exit code."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, TextIO

from rich.console import Console

DONE = 0
FAILED = 1
REFUSED = 2
INTERRUPTED = 130

TRACEBACK_VARIABLE = "PILESHUFFLE_TRACEBACK"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command has to say.

    Attributes
    ----------
    document : mapping
        The answer as JSON values.
    show : callable
        Prints it for people on a console.
    ok : bool
        Whether what was checked holds.
    """

    document: Mapping[str, Any]
    show: Callable[[Console], None]
    ok: bool = True


def deliver(find_answer: Callable[[Console], Answer], *, as_json: bool) -> int:
    """Find an answer, print it, and return the exit code.

    Parameters
    ----------
    find_answer
        Does the work; takes the console of standard error, for progress.
    as_json
        Print the JSON document, and nothing else, on standard output: whatever other code or processes print there
        goes to standard error.
    """
    with reserved_stdout() if as_json else contextlib.nullcontext(sys.stdout) as stdout:
        try:
            with terminated_as_interrupted():
                answer = find_answer(Console(stderr=True))
        except BaseException as error:  # noqa: BLE001 - an exit code for each
            code, kind, text = describe_error(error)
            report_error(code, kind, text, stdout if as_json else None)
            return code
        if as_json:
            print(json.dumps(answer.document, indent=2), file=stdout, flush=True)
        else:
            answer.show(Console(file=stdout))
        return DONE if answer.ok else FAILED


def describe_error(error: BaseException) -> tuple[int, str, str]:
    """Return exit code, kind and message of what ended a command."""
    from shuffle_tasks.errors import RequestError, ShuffleError  # not needed for the help, which should be fast

    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    kind = type(error).__name__
    if isinstance(error, SystemExit | GeneratorExit):
        raise error
    if was_interrupted(error):
        return INTERRUPTED, "Interrupted", "interrupted; the target is not committed, and the same command resumes"
    if isinstance(error, RequestError):
        return REFUSED, kind, str(error)
    if isinstance(error, ShuffleError):
        return FAILED, kind, str(error)
    return FAILED, kind, f"{kind}: {error} (set {TRACEBACK_VARIABLE}=1 to see where)"


def was_interrupted(error: BaseException | None) -> bool:
    """Tell whether Ctrl-C, SIGTERM or the cancelling of a flow run is at the bottom of an error."""
    while error is not None and isinstance(error, Exception) and type(error).__name__ != "CancelledRun":
        error = error.__cause__ or error.__context__
    return error is not None


def report_error(code: int, kind: str, text: str, json_file: TextIO | None = None) -> None:
    """Print a readable message on standard error, and a JSON document if a file is given."""
    Console(stderr=True).print(f"pileshuffle: {text}", style="red", highlight=False, markup=False, soft_wrap=True)
    if json_file is not None:
        print_error_document(code, kind, text, json_file)


def print_error_document(code: int, kind: str, text: str, file: TextIO) -> None:
    """Print the JSON document of a command that failed."""
    print(
        json.dumps({"status": "error", "kind": kind, "error": text, "exit_code": code}, indent=2), file=file, flush=True
    )


@contextlib.contextmanager
def reserved_stdout() -> Generator[TextIO]:
    """Yield a file on the real standard output; descriptor 1 goes to standard error, in child processes too."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(kept, "w", encoding="utf-8", closefd=False) as file:
            yield file
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextlib.contextmanager
def terminated_as_interrupted() -> Generator[None]:
    """Treat SIGTERM like Ctrl-C, so that the Dask work is cancelled and the attempt is recorded."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt(f"signal {number}")

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
