"""A small dataset, a run of it that stops after a given task, and what a finished one must look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import zarr
from oracle import row_order, stored_values
from strategies import synchronous

from shuffle_tasks import ShuffleConfig, run_shuffle

N = 200
SIZES = {"pile_rows": 50, "scatter_rows": 60, "levels": 2}


class InterruptionError(Exception):
    """Stands for whatever stops a run."""


def write_source(path: Path, first: int = 0) -> None:
    """Write a group with two variables, and one that is copied."""
    root = zarr.create_group(path)
    root.create_array(
        "x", data=np.arange(first, first + 3 * N, dtype="i4").reshape(N, 3), chunks=(7, 2), dimension_names=["row", "c"]
    )
    root.create_array("y", data=np.arange(N, dtype="f8"), chunks=(25,), dimension_names=["row"])
    root.create_array("z", data=np.arange(5), chunks=(2,), dimension_names=["other"])


def request_of(folder: Path) -> ShuffleConfig:
    """Return a request of two levels, with its source written."""
    write_source(folder / "in.zarr")
    return synchronous(folder / "in.zarr", folder / "out.zarr", seed=7, row_dim="row", **SIZES)


def assert_result(config: ShuffleConfig) -> None:
    """Check the target against the definition, and that nothing else is left beside it."""
    rows = {name: values for name, values in stored_values(config.source).items() if name != "z"}
    found = stored_values(config.target)
    order = row_order(len(rows["y"]), config.seed)
    for name, values in rows.items():
        np.testing.assert_array_equal(found[name], values[order])
    np.testing.assert_array_equal(found["z"], stored_values(config.source)["z"])


class Watcher:
    """Raises when the task number `done` of a stage has finished, and keeps the notes of the run."""

    def __init__(self, stop_at: tuple[str, int] | None) -> None:
        self.stop_at = stop_at
        self.notes: list[str] = []

    def stage_started(self, stage: str, tasks: int) -> None:
        """Do nothing."""

    def task_finished(self, stage: str, done: int, total: int) -> None:
        """Stop the run here if it was asked for."""
        if (stage, done) == self.stop_at:
            raise InterruptionError(f"after task {done} of {total} of {stage}")

    def stage_finished(self, stage: str, stats: Any) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Keep it."""
        self.notes.append(text)


def run_with(config: ShuffleConfig, *, stop_at: tuple[str, int] | None = None, key: str = "") -> dict[str, Any]:
    """Run all stages; stop when the task number `stop_at` of a stage is done."""
    watcher = Watcher(stop_at)
    report = run_shuffle(config, observer=watcher, labels={"key": key})
    return report.to_dict() | {"notes": watcher.notes}


def snapshot(folder: str) -> dict[str, bytes]:
    """Return every file below a folder but the records of tasks, whose times differ."""
    paths = [path for path in Path(folder).rglob("*") if path.is_file() and "records" not in path.parts]
    return {str(path): path.read_bytes() for path in paths}
