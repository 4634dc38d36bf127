"""The stages of a run, each over idempotent tasks that leave commit records; a task that has one is not run again."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from shuffle_tasks.certificate import VerifyReport
from shuffle_tasks.combine import combine_level
from shuffle_tasks.copying import copy_array
from shuffle_tasks.errors import CertificateError, DamagedPileError, StorageError
from shuffle_tasks.graph.execute import Executor
from shuffle_tasks.graph.progress import Observer, StageStats
from shuffle_tasks.scatter import rescatter_pile, scatter_span
from shuffle_tasks.shuffle import shuffle_in_memory, shuffle_pile
from shuffle_tasks.storage.records import drop_record, read_record, stage_name
from shuffle_tasks.storage.spec import RunSpec, TaskRef
from shuffle_tasks.verify import check_run, drop_incomplete_piles, read_back_pile

TaskFunction = Callable[[TaskRef], dict[str, Any]]


class StageRunner:
    """Runs the stages between plan and commit.

    Parameters
    ----------
    spec
        The stored plan.
    executor
        Runs tasks.
    observer
        Is told of the progress.
    run_id
        The attempt.
    """

    def __init__(self, spec: RunSpec, executor: Executor, observer: Observer, run_id: str) -> None:
        self.spec = spec
        self._executor = executor
        self._observer = observer
        self._run_id = run_id

    def scatter(self) -> StageStats:
        """Scatter the source into the piles of the first level, and these into the piles of deeper ones."""
        plan = self.spec.plan
        if not plan.levels:
            self._observer.stage_started("scatter", 0)
            return StageStats("scatter")
        stats = self._run_level("scatter", 0, scatter_span)
        for depth in range(1, plan.scatter_levels):
            combine_level(self.spec, depth - 1)
            stats = _add(stats, self._run_level("scatter", depth, rescatter_pile))
        return stats

    def combine(self) -> StageStats:
        """Prove that every row is in one pile, write the index, and consolidate small segments."""
        plan = self.spec.plan
        if plan.consolidation != "physical":
            self._observer.stage_started("combine", len(plan.levels[-1:]))
            if plan.levels:
                combine_level(self.spec, len(plan.levels) - 1)
            return StageStats("combine", tasks=len(plan.levels[-1:]))
        combine_level(self.spec, len(plan.levels) - 2)
        stats = self._run_level("combine", len(plan.levels) - 1, rescatter_pile)
        combine_level(self.spec, len(plan.levels) - 1)
        return stats

    def shuffle(self) -> StageStats:
        """Shuffle every pile into its target rows, and copy the arrays that have no rows."""
        function = shuffle_pile if self.spec.plan.levels else shuffle_in_memory
        stats = self._run_tasks("shuffle", "shuffle", function, self.spec.plan.piles)
        copies = len(self.spec.copies)
        return _add(stats, self._run_tasks("shuffle", "copy", copy_array, copies)) if copies else stats

    def verify(self, *, readback: bool) -> tuple[StageStats, VerifyReport]:
        """Return the certificate, after reading the target again if `readback`.

        Raises
        ------
        CertificateError
            If it does not agree; the message names the checks that failed.
        StorageError
            If a target object is missing, or read back differently.
        """
        if readback:
            stats = self._run_tasks("verify", "readback", read_back_pile, self.spec.plan.piles)
        else:
            self._observer.stage_started("verify", 1)
            stats = StageStats("verify", tasks=1)
        certificate = check_run(self.spec)
        failed = {check.name: f"{check.name}: {check.detail}" for check in certificate.checks if not check.ok}
        if "objects" in failed:
            lost = drop_incomplete_piles(self.spec)
            raise StorageError(f"{lost}; repeat the same command: it writes these rows anew")
        if failed:
            raise CertificateError(
                "the certificate does not agree, the target is not committed; " + "; ".join(failed.values())
            )
        return stats, certificate

    def _run_level(self, stage: str, depth: int, function: TaskFunction) -> StageStats:
        name, tasks = stage_name(depth, self.spec.plan), self.spec.plan.levels[depth].tasks
        return self._run_tasks(stage, name, function, tasks, depth)

    def _run_tasks(self, stage: str, name: str, function: TaskFunction, tasks: int, depth: int = 0) -> StageStats:
        """Run the tasks that have no commit record yet."""
        start = time.perf_counter()
        todo = [index for index in range(tasks) if read_record(self.spec, name, index) is None]
        found = tasks - len(todo)
        self._observer.stage_started(stage, tasks)
        if found:
            self._observer.note(f"{name}: {found} of {tasks} tasks found done")
        stats = StageStats(stage, tasks=tasks, found_done=found)
        refs = (TaskRef(self.spec.work, self.spec.plan_id, name, index, depth, self._run_id) for index in todo)
        try:
            for done, record in enumerate(self._executor.run(name, function, refs), found + 1):
                stats = _add(stats, _stats_of(stage, record))
                self._observer.task_finished(stage, done, tasks)
        except DamagedPileError as error:
            drop_record(self.spec, error.stage, error.task)
            raise
        return dataclasses.replace(stats, seconds=time.perf_counter() - start)


def _stats_of(stage: str, record: dict[str, Any]) -> StageStats:
    return StageStats(
        stage,
        bytes_read=record["bytes_read"],
        bytes_written=record["bytes_written"],
        task_seconds=record["seconds"],
        digest_seconds=record["parts"].get("digest", 0.0),
    )


def _add(one: StageStats, other: StageStats) -> StageStats:
    """Return the sum of the figures of two parts of a stage."""
    names = [field.name for field in dataclasses.fields(StageStats) if field.name != "stage"]
    return dataclasses.replace(one, **{name: getattr(one, name) + getattr(other, name) for name in names})
