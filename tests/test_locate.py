"""The plan stage's passes over the keys give the same borders spread over workers as in one process."""

import dataclasses

import numpy as np
import pytest
from oracle import row_keys, row_order

from shuffle_tasks import ShuffleConfig, locate, plan_shuffle
from shuffle_tasks.graph.execute import SynchronousExecutor


class CountingExecutor(SynchronousExecutor):
    """Runs in this thread, says that it has two workers, and counts tasks by stage."""

    slots = 2

    def __init__(self):
        self.tasks = {}

    def run(self, stage, function, arguments):
        """Count and run."""
        arguments = list(arguments)
        self.tasks[stage] = len(arguments)
        return super().run(stage, function, arguments)


@pytest.fixture
def plan(tmp_path):
    """Return the plan of a small array, two levels deep."""
    import zarr

    zarr.create_array(tmp_path / "in.zarr", shape=(5000, 2), chunks=(10, 2), dtype="f4")
    fields = {
        "pile_rows": 70,
        "scatter_rows": 130,
        "levels": 2,
        "scheduler": "synchronous",
        "seed": 3,
        "memory": "1GiB",
    }
    return plan_shuffle(ShuffleConfig(source=tmp_path / "in.zarr", target=tmp_path / "out.zarr", **fields))


@pytest.mark.parametrize("key_bits", [4, 64])
def test_workers_find_the_same_borders(plan, monkeypatch, key_bits):
    """Histogram, selection and segment counts in parts equal those in one go, and the definition, ties included."""
    plan = dataclasses.replace(plan, key_bits=key_bits)
    alone = locate.find_borders(plan, SynchronousExecutor())
    fitted = locate.fit_segments(plan, alone, SynchronousExecutor())
    monkeypatch.setattr(locate, "DISTRIBUTE_ROWS", 1000)
    monkeypatch.setattr(locate, "PART_ROWS", 700)
    spread = CountingExecutor()
    assert locate.find_borders(plan, spread) == alone
    assert locate.fit_segments(plan, alone, spread) == fitted
    assert spread.tasks["histogram"] == spread.tasks["select"] == 8
    assert spread.tasks["segments"] > 1
    assert alone.rows.tolist() == row_order(5000, 3, bits=key_bits)[70::70].tolist()


def test_segments_are_exact(plan):
    """The largest segment of each level has the rows that a count gives, and never more than the estimate."""
    fitted = locate.fit_segments(plan, locate.find_borders(plan, SynchronousExecutor()), SynchronousExecutor())
    rank = np.argsort(np.argsort(row_keys(5000, 3), kind="stable"), kind="stable")
    for level, estimate in zip(fitted.levels, plan.levels, strict=True):
        counts = np.zeros((level.spans, level.piles), int)
        np.add.at(counts, (np.arange(5000) // level.span_rows, rank // level.pile_rows), 1)
        assert counts.max() == level.segment_rows <= estimate.segment_rows
