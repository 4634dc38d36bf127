"""The lease on a run's work directory: one attempt at a time, and none that has lost its lease commits anything.

    lease.json    {"run_id", "host", "pid", "started"}, its modification time is the heartbeat

The holder touches the file every few seconds. A holder on this host is dead when its process is; one on another host
when its heartbeat is too old. Who takes a lease looks at the old one under a file lock, so only one contender gets it,
and every commit record checks that the lease is still that of its own attempt, so tasks of a dead run that are still
alive somewhere cannot commit into a newer one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import psutil

from shuffle_tasks.errors import RequestError, RunError
from shuffle_tasks.storage.objects import LocalObjects

LEASE_NAME = "lease.json"
LOCK_NAME = "lease.lock"
HEARTBEAT_SECONDS = 5.0
EXPIRY_SECONDS = 60.0


class Lease:
    """The claim of one attempt on a work directory.

    Parameters
    ----------
    work
        Directory of the run.
    run_id
        The attempt.
    """

    def __init__(self, work: str, run_id: str) -> None:
        self._objects = LocalObjects(work)
        self._run_id = run_id
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pileshuffle-lease", daemon=True)

    def acquire(self) -> None:
        """Take the lease, and keep it alive until `release`.

        Raises
        ------
        RequestError
            If another attempt holds it and lives.
        """
        with self._alone():
            holder = self._read()
            if holder is not None and holder_lives(holder, self._heartbeat_age()):
                raise self._refusal(holder)
            me = psutil.Process()
            claim = {"run_id": self._run_id, "host": socket.gethostname(), "pid": me.pid, "started": me.create_time()}
            self._objects.put_json(LEASE_NAME, claim)
        self._thread.start()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the directory, which the system frees when a process dies, while looking at the lease."""
        os.makedirs(self._objects.root, exist_ok=True)
        with open(self._objects.path(LOCK_NAME), "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _read(self) -> dict[str, Any] | None:
        data = self._objects.get(LEASE_NAME)
        try:
            return None if data is None else dict(json.loads(data))
        except (ValueError, TypeError):
            return {}

    def _heartbeat_age(self) -> float:
        """Return the seconds since the last heartbeat, by the clock of the file system."""
        probe = f"now-{self._run_id}"
        self._objects.put(probe, b"")
        try:
            return os.stat(self._objects.path(probe)).st_mtime - os.stat(self._objects.path(LEASE_NAME)).st_mtime
        except FileNotFoundError:
            return 0.0
        finally:
            self._objects.delete(probe)

    def _refusal(self, holder: dict[str, Any]) -> RequestError:
        return RequestError(
            f"another run is working on this very request: run {holder.get('run_id')}, process {holder.get('pid')} on "
            f"{holder.get('host')}, in {self._objects.root}; wait for it, or stop it and repeat the command"
        )

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            if not self.is_held():
                return
            with contextlib.suppress(OSError):
                os.utime(self._objects.path(LEASE_NAME))

    def is_held(self) -> bool:
        """Tell whether the lease is still this attempt's."""
        return (self._read() or {}).get("run_id") == self._run_id

    def check(self) -> None:
        """Raise if the lease is no longer this attempt's.

        Raises
        ------
        RunError
            If a newer attempt took over, or finished.
        """
        if not self.is_held():
            raise RunError(
                f"this attempt ({self._run_id}) lost its claim on {self._objects.root}: "
                "a newer one took over, or has finished"
            )

    def release(self) -> None:
        """Give the lease back, if it is still this attempt's."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if self.is_held():
            self._objects.delete(LEASE_NAME)


def holder_lives(holder: dict[str, Any], heartbeat_age: float) -> bool:
    """Tell whether the process that holds a lease is alive: by its process on this host, else by its heartbeat."""
    if holder.get("host") != socket.gethostname():
        return heartbeat_age < EXPIRY_SECONDS
    try:
        return bool(psutil.Process(holder["pid"]).create_time() == holder["started"])
    except (psutil.Error, KeyError, TypeError, ValueError):
        return False


def check_token(work: str, run_id: str) -> None:
    """Raise if an attempt may no longer commit; the empty run id is that of a task that is run by hand.

    Raises
    ------
    RunError
        If the lease is another attempt's, or gone.
    """
    if run_id:
        Lease(work, run_id).check()
