"""What people see: progress, strips and pictures, without processes."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from flows.artifacts import write_summary
from flows.demo import draw_strip, share_of_dogs
from flows.picture import draw_labels
from flows.stages import asset_key
from flows.terminal import LINE_SECONDS, PlainLines, show_progress
from shuffle_tasks.graph.progress import StageStats

LABELS = np.repeat(np.array([0, 1], "i1"), 500)


def test_plain_lines_are_throttled() -> None:
    """At most one line in `LINE_SECONDS` while a stage runs, and one at its end."""
    lines: list[str] = []
    now = [0.0]
    observer = PlainLines(lines.append, clock=lambda: now[0])
    observer.stage_started("scatter", 100)
    for done in range(1, 101):
        now[0] += LINE_SECONDS / 10
        observer.task_finished("scatter", done, 100)
    observer.stage_finished("scatter", StageStats("scatter", seconds=50.0, bytes_read=2**20, bytes_written=2**20))
    assert len(lines) == 10
    assert lines[0] == "scatter: 10 of 100 tasks (10%)"
    assert lines[-1] == "scatter: 50.0 s, read 1.0 MiB, wrote 1.0 MiB"


@pytest.mark.parametrize("terminal", [True, False])
def test_progress(*, terminal: bool) -> None:
    """Bars and plain lines take the same calls; a stage may start once a step."""
    out = io.StringIO()
    with show_progress(Console(file=out, force_terminal=terminal, width=100)) as observer:
        observer.note("the [chunk] rows")
        for tasks in (3, 0, 2):
            observer.stage_started("shuffle", tasks)
            for done in range(tasks):
                observer.task_finished("shuffle", done + 1, tasks)
        observer.stage_finished("shuffle", StageStats("shuffle", seconds=1.0))
    assert "the [chunk] rows" in out.getvalue()
    assert "shuffle: 1.0 s" in out.getvalue()


def test_strip() -> None:
    """The strip shows the share of dogs, with and without colours."""
    assert share_of_dogs(LABELS, 4).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert draw_strip(LABELS, 4, blocks=".:#").plain == "..##"
    assert draw_strip(np.tile(np.array([0, 1], "i1"), 500), 4, blocks=".:#").plain == "::::"


@pytest.mark.parametrize("rows", [2, 999, 1_000, 12_345])
def test_picture(tmp_path: Path, rows: int) -> None:
    """Any number of rows makes a picture, without touching pyplot."""
    labels = (np.arange(rows) % 2).astype("i1")
    draw_labels(tmp_path / "labels.png", np.sort(labels), labels)
    assert (tmp_path / "labels.png").stat().st_size > 1_000


def test_asset_keys(tmp_path: Path) -> None:
    """Keys are URIs that Prefect takes, distinct for distinct short paths."""
    from prefect.assets import Asset

    names = ["a b", "a=b", "a%20b", "a{b}", "a'b\"c", "ä#?&<>|\\^`[]", "x" * 600]
    keys = [asset_key(str(tmp_path / name)) for name in names]
    assert len({Asset(key=key).key for key in keys}) == len(names)
    assert asset_key("/data/a.zarr") == "file:///data/a.zarr"


def test_summary_without_stages() -> None:
    """A summary needs no stages: a request that was complete before has none of its own."""
    plan = {"scatter_tasks": 0, "piles": 1, "pile_rows": 10, "levels": 0, "consolidation": "none", "limits": "nothing"}
    report = {
        "status": "already complete", "target": "/t", "n": 10, "seed": 0, "epoch": 0, "run_id": "r",
        "digests": {"content": "ff"}, "stages": {}, "plan": plan,
    }  # fmt: skip
    assert "| content | `ff` |" in write_summary(report)
