"""Runs the command line in real processes, and looks at what a run leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ROWS_PER_CLASS = 2_000
ROWS = 2 * ROWS_PER_CLASS


@dataclass(frozen=True)
class Finished:
    """What a process of the command line left."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Return standard output as one JSON document; anything else there fails."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


class CommandLine:
    """Runs `python -m flows` in a directory of its own."""

    def __init__(self, place: Path, environment: Mapping[str, str]) -> None:
        self.place = place
        self.environment = dict(environment)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Start a command in a process group of its own."""
        command = [sys.executable, "-m", "flows", *map(str, arguments)]
        return subprocess.Popen(
            command, cwd=self.place, env=self.environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def finish(self, process: subprocess.Popen[str], timeout: float = 120) -> Finished:
        """Wait for a command and return what it left; kill its whole group if it hangs."""
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return Finished(process.returncode, out, err)

    def __call__(self, *arguments: object) -> Finished:
        """Run a command to its end."""
        return self.finish(self.start(*arguments))


def plain_environment(home: Path) -> dict[str, str]:
    """Return an environment without any Prefect settings but a home of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "PILESHUFFLE_"))}
    more = {"PREFECT_HOME": str(home), "PYTHONPATH": str(ROOT), "COLUMNS": "150", "NO_COLOR": "1"}
    return kept | more | {"PYTHONWARNINGS": "default"}


def read_attempts(target: Path) -> list[dict[str, Any]]:
    """Return the records of the attempts at a target that is not committed."""
    folder = target.with_name(target.name + ".work")
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*/runs/*.json"))]


def is_committed(target: Path) -> bool:
    """Tell whether readers can open a target."""
    return bool(json.loads((target / "zarr.json").read_text())["zarr_format"] == 3)


def damage(dataset: Path) -> None:
    """Cut one stored chunk of the features short."""
    chunk = min(path for path in (dataset / "features" / "c").rglob("*") if path.is_file())
    chunk.write_bytes(chunk.read_bytes()[:100])


def read_features(path: Path) -> Any:
    """Return the features of a dataset of pets."""
    import zarr

    return zarr.open_group(path, mode="r")["features"][:]


def wait_for_line(process: subprocess.Popen[str], start: str) -> None:
    """Read standard error up to a line that starts so."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if line.startswith(start):
            return
    raise AssertionError("".join(seen))


def wait_for_empty_group(group: int, seconds: float = 10) -> str:
    """Wait until no process of a group is left, and return those that are, if any."""
    end = time.monotonic() + seconds
    while True:
        listed = subprocess.run(["ps", "-eo", "pgid=,pid=,args="], capture_output=True, text=True, check=True).stdout
        left = [line for line in listed.splitlines() if line.split()[0] == str(group)]
        if not left or time.monotonic() > end:
            return "\n".join(left)
        time.sleep(0.2)
