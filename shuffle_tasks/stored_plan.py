"""Store the plan of a run, or adopt the one that an earlier attempt of the same request stored."""

from __future__ import annotations

import os
from typing import Any

from shuffle_tasks.errors import RequestError, StorageError
from shuffle_tasks.graph.execute import Executor
from shuffle_tasks.locate import find_borders, fit_segments
from shuffle_tasks.planning.plan import Plan
from shuffle_tasks.planning.sizes import format_bytes
from shuffle_tasks.request import Request
from shuffle_tasks.storage.layout import Nodes
from shuffle_tasks.storage.objects import LocalObjects
from shuffle_tasks.storage.piles import create_piles
from shuffle_tasks.storage.records import record_key
from shuffle_tasks.storage.spec import PLAN_NAME, RunSpec, load_spec, spec_from_json
from shuffle_tasks.storage.target import prepare_target, target_state


def adopt_or_store_plan(request: Request, plan: Plan, nodes: Nodes, executor: Executor) -> RunSpec:
    """Return the run to work on, with its pile stores and its uncommitted target in place.

    Raises
    ------
    RequestError
        If the stored plan needs more memory than there is now.
    """
    root = _target_root(request)
    stored = _stored_spec(request)
    if stored is not None and stored.target_root == root and stored.plan.key_bits == plan.key_bits:
        _check_memory(stored.plan, plan.budget)
        _resume_target(stored)
        return stored
    work = LocalObjects(request.work)
    for name in ("piles.zarr", "records", *(f"piles-level-{depth}.zarr" for depth in range(1, 6))):
        work.delete_tree(name)
    return _store(request, plan, nodes, root, executor)


def _target_root(request: Request) -> str:
    """Return where to write: beside a target that is to be replaced, else in its place."""
    state, _ = target_state(request.target)
    return f"{request.target}.staged" if state == "present" else request.target


def _stored_spec(request: Request) -> RunSpec | None:
    data = LocalObjects(request.work).get(PLAN_NAME)
    if data is None:
        return None
    try:
        return spec_from_json(data, request.work)
    except StorageError:
        return None


def _check_memory(plan: Plan, budget: int) -> None:
    needed = max(peak for stage, peak in plan.peaks.items() if stage not in {"plan", "verify"})
    if needed > budget:
        raise RequestError(
            f"this run was begun with a plan that needs {format_bytes(needed)} a worker, and a worker has "
            f"{format_bytes(budget)}: give at least --memory {-(-needed // 2**20)}MiB times the number of workers"
        )


def _resume_target(spec: RunSpec) -> None:
    """Make sure that what the records say was written is still there."""
    state, mark = target_state(spec.target_root)
    if state == "uncommitted" and mark.get("request_digest") == spec.request_digest:
        return
    for stage, tasks in (("shuffle", spec.plan.piles), ("copy", len(spec.copies)), ("readback", spec.plan.piles)):
        for index in range(tasks):
            spec.objects().delete(record_key(stage, index))
    _fresh_target(spec)


def _store(request: Request, plan: Plan, nodes: Nodes, root: str, executor: Executor) -> RunSpec:
    splitters = find_borders(plan, executor)
    draft = RunSpec(
        request=request.terms,
        request_digest=request.digest,
        plan=fit_segments(plan, splitters, executor),
        source_url=request.source.url,
        target_root=root,
        target_url=request.target,
        source_nodes=request.source.nodes,
        target_nodes=nodes,
        copies=request.source.copies,
        splitters=splitters,
        work=request.work,
    )
    _fresh_target(draft)
    for depth in range(len(plan.levels)):
        create_piles(draft, depth)
    data = draft.to_json()
    LocalObjects(request.work).put(PLAN_NAME, data)
    return load_spec(request.work, spec_from_json(data, request.work).plan_id)


def _fresh_target(spec: RunSpec) -> None:
    state, mark = target_state(spec.target_root)
    if state != "absent":
        LocalObjects(spec.target_root).delete_tree()
    _discard_other_run(mark, spec)
    prepare_target(spec.target_root, spec.target_nodes, spec.request_digest, spec.work)


def _discard_other_run(mark: dict[str, Any], spec: RunSpec) -> None:
    """Remove the work of an unfinished run whose target is being replaced, if it lies beside this run's own."""
    other = mark.get("work")
    if isinstance(other, str) and other != spec.work and os.path.dirname(other) == os.path.dirname(spec.work):
        LocalObjects(other).delete_tree()
