"""What a task cost: seconds in all and in the digests, and the host it ran on."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from typing import Any


class TaskMeter:
    """Times one task; `seconds` of the parts that have a name."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self.parts: dict[str, float] = {}

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the time inside to the part `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.parts[name] = self.parts.get(name, 0.0) + time.perf_counter() - start

    def summary(self) -> dict[str, Any]:
        """Return the figures for a commit record."""
        return {
            "seconds": round(time.perf_counter() - self._start, 6),
            "parts": {name: round(seconds, 6) for name, seconds in self.parts.items()},
            "host": socket.gethostname(),
            "pid": os.getpid(),
        }
