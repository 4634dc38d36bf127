"""Commit records: one small JSON object a finished task, found by its expected name and never by a listing."""

from __future__ import annotations

from typing import Any

from shuffle_tasks.errors import StorageError
from shuffle_tasks.planning.plan import Plan
from shuffle_tasks.storage.lease import check_token
from shuffle_tasks.storage.spec import RunSpec, TaskRef


def stage_name(depth: int, plan: Plan) -> str:
    """Return the name of a level's records: "scatter", "scatter-2" …, "consolidate" for the physical one."""
    if depth and plan.consolidation == "physical" and depth == len(plan.levels) - 1:
        return "consolidate"
    return "scatter" if depth == 0 else f"scatter-{depth + 1}"


def record_key(stage: str, index: int) -> str:
    """Return the key of the record of one task."""
    return f"records/{stage}-{index:05d}.json"


def write_record(ref: TaskRef, record: dict[str, Any]) -> dict[str, Any]:
    """Write the record of a task after its data, and return it.

    Raises
    ------
    RunError
        If the attempt that sent the task lost its lease: a newer one is at work.
    """
    check_token(ref.work, ref.run_id)
    record = {"stage": ref.stage, "task": ref.index, "plan_id": ref.plan_id, "run_id": ref.run_id, **record}
    ref.spec().objects().put_json(record_key(ref.stage, ref.index), record)
    return record


def read_record(spec: RunSpec, stage: str, index: int) -> dict[str, Any] | None:
    """Return the record of a task that finished under this very plan, or None."""
    record = spec.objects().get_json(record_key(stage, index))
    if not isinstance(record, dict) or record.get("plan_id") != spec.plan_id:
        return None
    return record


def drop_record(spec: RunSpec, stage: str, index: int) -> None:
    """Forget that a task finished: the next attempt runs it again."""
    spec.objects().delete(record_key(stage, index))


def committed_records(spec: RunSpec, stage: str, tasks: int) -> list[dict[str, Any]]:
    """Return the records of all tasks of a stage, in order.

    Raises
    ------
    StorageError
        If some are missing; all of them are named (up to ten).
    """
    records = [read_record(spec, stage, index) for index in range(tasks)]
    missing = [index for index, record in enumerate(records) if record is None]
    if missing:
        raise StorageError(
            f"{len(missing)} of {tasks} {stage} tasks have no commit record: {missing[:10]}; run the same command again"
        )
    return [record for record in records if record is not None]
