"""The run: plan → scatter → combine → shuffle → verify → commit, each stage over idempotent tasks with commit records.

    with ShuffleRun(config) as run:          # the request is checked, the workers are there
        for stage in STAGES:
            run.run_stage(stage)
    run.report()

`run_shuffle` is just that; a workflow engine can wrap each stage in a task of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from shuffle_tasks.combine import combine_level, stage_name
from shuffle_tasks.copying import copy_array
from shuffle_tasks.errors import CertificateError, RequestError, ShuffleError
from shuffle_tasks.graph import cluster
from shuffle_tasks.graph.execute import DaskExecutor, Executor, SynchronousExecutor
from shuffle_tasks.graph.progress import Observer, SilentObserver, StageStats
from shuffle_tasks.planning.config import ShuffleConfig
from shuffle_tasks.planning.plan import Plan
from shuffle_tasks.provenance import (
    describe_plan,
    earlier_attempts,
    new_run_id,
    read_records,
    start_record,
    write_attempt,
)
from shuffle_tasks.report import ShuffleReport, report_from_record
from shuffle_tasks.request import Request, check_disk, check_target, open_request, plan_request
from shuffle_tasks.scatter import rescatter_pile, scatter_span
from shuffle_tasks.shuffle import shuffle_in_memory, shuffle_pile
from shuffle_tasks.storage.layout import Nodes
from shuffle_tasks.storage.objects import LocalObjects
from shuffle_tasks.storage.piles import store_name
from shuffle_tasks.storage.records import read_record
from shuffle_tasks.storage.spec import RunSpec, TaskRef
from shuffle_tasks.storage.target import commit_target, swap_in
from shuffle_tasks.stored_plan import adopt_or_store_plan
from shuffle_tasks.verify import check_run, read_back_pile, run_digests

STAGES = ("plan", "scatter", "combine", "shuffle", "verify", "commit")


def is_complete(config: ShuffleConfig) -> bool:
    """Tell whether an identical request has finished, so that a run would have nothing to do."""
    return not config.overwrite and complete_record(open_request(config)) is not None


def complete_record(request: Request) -> Mapping[str, Any] | None:
    """Return the record of a finished identical request in the target, or None."""
    with contextlib.suppress(ShuffleError):
        for record in read_records(request.target).values():
            if record.get("request_digest") == request.digest and record.get("status") == "complete":
                return dict(record)
    return None


class ShuffleRun:
    """One attempt at a shuffle, as a context manager.

    Entering checks the request and starts (or connects to) the workers; leaving with an exception records the attempt as failed or
    cancelled. What tasks have committed stays, and a later attempt goes on from there.

    Parameters
    ----------
    config
        What to do.
    client
        A `distributed.Client` to use; by default the configuration's scheduler, or a local cluster.
    observer
        Is told of the progress.
    labels
        Go into the provenance record, such as the ids of a workflow engine.
    key_bits
        Leading bits of the keys that count: less than 64 makes ties common, for tests.

    Attributes
    ----------
    already_complete : bool
        An identical request had finished before: there is nothing to do.
    plan : Plan
        The numbers; exact after the stage "plan".
    dashboard_link : str or None
        Of the Dask cluster.

    Raises
    ------
    RequestError
        On entering, if the request is wrong.
    """

    def __init__(
        self,
        config: ShuffleConfig,
        *,
        client: Any = None,
        observer: Observer | None = None,
        labels: Mapping[str, str] | None = None,
        key_bits: int = 64,
    ) -> None:
        self.config = config
        self.observer: Observer = observer or SilentObserver()
        self.already_complete = False
        self.dashboard_link: str | None = None
        self.plan: Plan
        self.run_id = new_run_id()
        self._given_client = client
        self._labels = dict(labels or {})
        self._key_bits = key_bits
        self._stack = ExitStack()
        self._stats: dict[str, StageStats] = {}
        self._record: dict[str, Any] = {}
        self._request: Request
        self._nodes: Nodes
        self._executor: Executor
        self._spec: RunSpec | None = None

    def __enter__(self) -> Self:
        """Check the request, plan it, and get the workers."""
        self._request = open_request(self.config)
        done = None if self.config.overwrite else complete_record(self._request)
        if done is not None:
            self.already_complete, self._record = True, dict(done)
            self.observer.note(f"already complete: {self._request.target} holds the result of this very request")
            return self
        check_target(self._request)
        with ExitStack() as stack:
            self._executor = self._start_workers(stack)
            self._stack = stack.pop_all()
        try:
            self._record = start_record(self._request, self.run_id, self._labels)
            write_attempt(self._request.work, self._record)
        except BaseException:
            self._stack.close()
            raise
        return self

    def _start_workers(self, stack: ExitStack) -> Executor:
        config = self.config
        client = self._given_client
        if client is None and config.scheduler not in (None, "synchronous"):
            client = stack.enter_context(cluster.connect(str(config.scheduler)))
        resources = cluster.cluster_resources(client, config) if client else cluster.local_resources(config)
        self.plan, self._nodes = plan_request(self._request, resources, self._key_bits)
        check_disk(self._request, self.plan)
        if client is None and config.scheduler == "synchronous":
            return SynchronousExecutor()
        if client is None:
            client = stack.enter_context(cluster.local_client(resources.slots, resources.budget))
        elif note := cluster.allocator_note(client):
            self.observer.note(note)
        self.dashboard_link = client.dashboard_link
        self.observer.note(f"Dask dashboard: {self.dashboard_link}")
        if config.performance_report:
            from distributed import performance_report

            stack.enter_context(client.as_current())
            stack.enter_context(performance_report(filename=config.performance_report))
        return DaskExecutor(client, self.run_id, resources.slots)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record how the attempt ended, and let the workers go."""
        try:
            if error is not None and self._record and not self.already_complete and self._record["status"] == "running":
                status = "failed" if isinstance(error, Exception) else "cancelled"
                self._write_record(status=status, error=f"{type(error).__name__}: {error}")
        finally:
            self._stack.close()

    def _write_record(self, **changes: Any) -> None:
        ended = datetime.datetime.now(datetime.UTC).isoformat()
        stages = {name: stats.to_dict() for name, stats in self._stats.items()}
        self._record |= {"ended": ended, "stages": stages, **changes}
        write_attempt(self._request.work, self._record)

    @property
    def spec(self) -> RunSpec:
        """The stored plan; there is one after the stage "plan"."""
        if self._spec is None:
            raise RuntimeError('run_stage("plan") comes first')
        return self._spec

    def run_stage(self, name: str) -> StageStats:
        """Run one stage and return what it did; call the stages in the order of `STAGES`.

        Raises
        ------
        RunError
            If a task fails, or the certificate does not agree.
        """
        if self.already_complete:
            return StageStats(name)
        start = time.perf_counter()
        self._stats[name] = StageStats(name)
        getattr(self, f"_stage_{name}")()
        stats = dataclasses.replace(self._stats[name], seconds=round(time.perf_counter() - start, 6))
        self._stats[name] = stats
        self.observer.stage_finished(name, stats)
        if name == "commit":
            self._finish()
        return stats

    def _stage_plan(self) -> None:
        self.observer.stage_started("plan", 1)
        self._spec = adopt_or_store_plan(self._request, self.plan, self._nodes, self._executor)
        self.plan = self._spec.plan
        self._record |= describe_plan(self._spec)
        for note in self.plan.notes:
            self.observer.note(note)

    def _stage_scatter(self) -> None:
        self._run_level(0, scatter_span) if self.plan.levels else self.observer.stage_started("scatter", 0)
        for depth in range(1, self.plan.scatter_levels):
            combine_level(self.spec, depth - 1)
            self._run_level(depth, rescatter_pile)

    def _stage_combine(self) -> None:
        levels = self.plan.levels
        if self.plan.consolidation != "physical":
            self.observer.stage_started("combine", len(levels[-1:]))
            for depth in range(len(levels))[-1:]:
                combine_level(self.spec, depth)
            return
        combine_level(self.spec, len(levels) - 2)
        self._run_level(len(levels) - 1, rescatter_pile, "combine")
        combine_level(self.spec, len(levels) - 1)

    def _run_level(self, depth: int, function: Callable[[TaskRef], dict[str, Any]], stage: str = "scatter") -> None:
        name = stage_name(depth, self.spec)
        self._run_tasks(stage, name, function, range(self.plan.levels[depth].tasks), depth)

    def _stage_shuffle(self) -> None:
        function = shuffle_pile if self.plan.levels else shuffle_in_memory
        self._run_tasks("shuffle", "shuffle", function, range(self.plan.piles))
        self._run_tasks("shuffle", "copy", copy_array, range(len(self.spec.copies)))

    def _stage_verify(self) -> None:
        if self.config.verify_readback:
            self._run_tasks("verify", "readback", read_back_pile, range(self.plan.piles))
        else:
            self.observer.stage_started("verify", 1)
        certificate = check_run(self.spec)
        self._record |= {"certificate": certificate.to_dict(), "digests": run_digests(self.spec)}
        failed = [f"{check.name}: {check.detail}" for check in certificate.checks if not check.ok]
        if failed:
            raise CertificateError("the certificate does not agree, the target is not committed; " + "; ".join(failed))

    def _stage_commit(self) -> None:
        self.observer.stage_started("commit", 1)
        kept = f"{self.spec.work}/piles.zarr" if self.config.keep_piles and self.plan.levels else None
        self._stats["commit"] = StageStats("commit", tasks=1)
        self._write_record(status="complete", piles=kept)
        records = earlier_attempts(self.spec.work, self.run_id) | {self.run_id: self._record}
        commit_target(self.spec.target_root, self.spec.target_nodes, records)
        if self.spec.target_root != self.spec.target_url:
            swap_in(self.spec.target_root, self.spec.target_url)

    def _finish(self) -> None:
        """Remove what the run no longer needs."""
        work = LocalObjects(self.spec.work)
        if not self.config.keep_piles:
            work.delete_tree()
            LocalObjects(self._request.work_root).delete_empty_folder()
            return
        for depth in range(len(self.plan.levels) - 1):
            work.delete_tree(store_name(self.spec, depth))

    def _run_tasks(
        self,
        stage: str,
        name: str,
        function: Callable[[TaskRef], dict[str, Any]],
        indices: Iterable[int],
        depth: int = 0,
    ) -> None:
        """Run the tasks of a stage that have no commit record yet."""
        indices = list(indices)
        todo = [index for index in indices if read_record(self.spec, name, index) is None]
        done = len(indices) - len(todo)
        self.observer.stage_started(stage, len(indices))
        if done:
            self.observer.note(f"{stage}: {done} of {len(indices)} tasks found done")
        self._count(stage, tasks=len(indices), found_done=done)
        refs = (TaskRef(self.spec.work, self.spec.plan_id, name, index, depth, self.run_id) for index in todo)
        for record in self._executor.run(name, function, refs):
            done += 1
            self._count(
                stage,
                bytes_read=record["bytes_read"],
                bytes_written=record["bytes_written"],
                task_seconds=record["seconds"],
                digest_seconds=record["parts"].get("digest", 0.0),
            )
            self.observer.task_finished(stage, done, len(indices))

    def _count(self, stage: str, **more: float) -> None:
        stats = self._stats[stage]
        self._stats[stage] = dataclasses.replace(
            stats, **{name: getattr(stats, name) + value for name, value in more.items()}
        )

    def report(self) -> ShuffleReport:
        """Return the report of a complete run.

        Raises
        ------
        RequestError
            If the run is not complete.
        """
        if self._record.get("status") != "complete":
            raise RequestError("the run is not complete: run all stages first")
        stages = {name: stats.to_dict() for name, stats in self._stats.items()}
        record = self._record | ({"stages": stages} if stages else {})
        return report_from_record(record, "already complete" if self.already_complete else None)


def run_shuffle(
    config: ShuffleConfig,
    client: Any = None,
    *,
    observer: Observer | None = None,
    labels: Mapping[str, str] | None = None,
) -> ShuffleReport:
    """Shuffle a dataset and return the report.

    Parameters
    ----------
    config
        What to do.
    client
        A `distributed.Client` to use; by default the configuration's scheduler, or a local cluster.
    observer
        Is told of the progress.
    labels
        Go into the provenance record.

    Raises
    ------
    RequestError
        If the request is wrong; nothing was done.
    RunError
        If the run failed; the target is not committed, and the same call goes on from the finished tasks.
    """
    with ShuffleRun(config, client=client, observer=observer, labels=labels) as run:
        for stage in STAGES:
            run.run_stage(stage)
        return run.report()


def plan_shuffle(config: ShuffleConfig) -> Plan:
    """Return the plan of a shuffle: metadata is read, nothing is written.

    Raises
    ------
    RequestError
        If the request is wrong, or cannot work with the memory and the disks there are.
    """
    request = open_request(config)
    if complete_record(request) is None:
        check_target(request)
    if config.scheduler in (None, "synchronous"):
        resources = cluster.local_resources(config)
    else:
        with cluster.connect(str(config.scheduler)) as client:
            resources = cluster.cluster_resources(client, config)
    plan, _ = plan_request(request, resources)
    check_disk(request, plan)
    return plan
