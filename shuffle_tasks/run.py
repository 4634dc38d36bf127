"""The run: plan → scatter → combine → shuffle → verify → commit, each stage over idempotent tasks with commit records.

    with ShuffleRun(config) as run:          # the request is checked, the workers are there
        for stage in STAGES:
            run.run_stage(stage)
    run.report()

`run_shuffle` is just that; a workflow engine can wrap each stage in a task of its own.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from shuffle_tasks.completed import complete_record, is_complete
from shuffle_tasks.errors import CertificateError, RequestError
from shuffle_tasks.graph import cluster
from shuffle_tasks.graph.execute import DaskExecutor, Executor, SynchronousExecutor
from shuffle_tasks.graph.progress import Observer, SilentObserver, StageStats
from shuffle_tasks.planning.config import ShuffleConfig
from shuffle_tasks.planning.plan import Plan
from shuffle_tasks.provenance import (
    describe_plan,
    earlier_attempts,
    new_run_id,
    start_record,
    write_attempt,
)
from shuffle_tasks.report import ShuffleReport, report_from_record
from shuffle_tasks.request import Request, check_disk, check_target, open_request, plan_request
from shuffle_tasks.stages import StageRunner
from shuffle_tasks.storage.layout import Nodes
from shuffle_tasks.storage.lease import Lease
from shuffle_tasks.storage.objects import LocalObjects
from shuffle_tasks.storage.piles import store_name
from shuffle_tasks.storage.spec import RunSpec
from shuffle_tasks.storage.target import commit_target, swap_in
from shuffle_tasks.stored_plan import adopt_or_store_plan
from shuffle_tasks.verify import run_digests

__all__ = ["STAGES", "ShuffleRun", "StageStats", "is_complete", "run_shuffle"]

STAGES = ("plan", "scatter", "combine", "shuffle", "verify", "commit")


class ShuffleRun:
    """One attempt at a shuffle, as a context manager.

    Entering checks the request and starts (or connects to) the workers; leaving with an exception records the attempt
    as failed or cancelled. What tasks have committed stays, and a later attempt goes on from there.

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
        self._stages: StageRunner
        self._lease: Lease

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
            self._lease = Lease(self._request.work, self.run_id)
            self._lease.acquire()
            self._stack.callback(self._lease.release)
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
                if isinstance(error, CertificateError) and self._lease.is_held():
                    LocalObjects(self._request.work).delete_tree("records")
                self._write_record(status=status, error=f"{type(error).__name__}: {error}")
        finally:
            self._stack.close()

    def _write_record(self, **changes: Any) -> None:
        ended = dt.datetime.now(dt.UTC).isoformat()
        stages = {name: stats.to_dict() for name, stats in self._stats.items()}
        self._record |= {"ended": ended, "stages": stages, **changes}
        write_attempt(self._request.work, self._record)

    @property
    def spec(self) -> RunSpec:
        """The stored plan; there is one after the stage "plan"."""
        return self._stages.spec

    def run_stage(self, name: str) -> StageStats:
        """Run one stage and return what it did; call the stages in the order of `STAGES`.

        Raises
        ------
        RunError
            If a task fails, or the certificate does not agree.
        """
        if self.already_complete:
            return StageStats(name)
        self._lease.check()
        start = time.perf_counter()
        own = {"plan": self._plan, "verify": self._verify, "commit": self._commit}
        stats: StageStats = (own.get(name) or getattr(self._stages, name))()
        stats = dataclasses.replace(stats, seconds=round(time.perf_counter() - start, 6))
        self._stats[name] = stats
        self.observer.stage_finished(name, stats)
        return stats

    def _plan(self) -> StageStats:
        self.observer.stage_started("plan", 1)
        spec = adopt_or_store_plan(self._request, self.plan, self._nodes, self._executor)
        self._stages = StageRunner(spec, self._executor, self.observer, self.run_id)
        self.plan = spec.plan
        self._record |= describe_plan(spec)
        for note in self.plan.notes:
            self.observer.note(note)
        return StageStats("plan", tasks=1)

    def _verify(self) -> StageStats:
        stats, certificate = self._stages.verify(readback=self.config.verify_readback)
        self._record |= {"certificate": certificate.to_dict(), "digests": run_digests(self.spec)}
        return stats

    def _commit(self) -> StageStats:
        self.observer.stage_started("commit", 1)
        spec = self.spec
        kept = f"{spec.work}/piles.zarr" if self.config.keep_piles and self.plan.levels else None
        self._write_record(status="complete", piles=kept)
        records = earlier_attempts(spec.work, self.run_id) | {self.run_id: self._record}
        self._lease.check()
        commit_target(spec.target_root, spec.target_nodes, records)
        if spec.target_root != spec.target_url:
            swap_in(spec.target_root, spec.target_url)
        self._clean_up()
        return StageStats("commit", tasks=1)

    def _clean_up(self) -> None:
        """Remove what the run no longer needs."""
        work = LocalObjects(self.spec.work)
        if not self.config.keep_piles:
            work.delete_tree()
            LocalObjects(self._request.work_root).delete_empty_folder()
            return
        self._lease.release()
        for depth in range(len(self.plan.levels) - 1):
            work.delete_tree(store_name(self.spec, depth))

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
