"""The Prefect flow: one exact global shuffle as a flow run, with a task run a stage.

Call it in a script or a notebook, serve it, or deploy it (`infra/`). It adds to the engine what an operator wants to
see: names, progress, a summary, the target as an asset. It changes nothing in the result.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from prefect import flow, runtime
from prefect.states import Cancelled
from pydantic import Field, WithJsonSchema

from flows.artifacts import ProgressArtifacts, publish_summary
from flows.cancelling import CancelWatch, FlowRunCancelled, ask_server
from flows.logs import quiet_dask
from flows.schedule import name_request, resolve_request
from flows.server import describe_flow_run
from flows.stages import run_stages
from flows.watching import Several, current_watcher
from shuffle_tasks.errors import RequestError
from shuffle_tasks.planning.config import ShuffleConfig
from shuffle_tasks.report import ShuffleReport  # at run time too: Prefect evaluates all annotations for the form
from shuffle_tasks.run import ShuffleRun

NOT_FIELDS = ("config", "epoch_from_schedule")


def _form(name: str, text: str | None = None, **schema: Any) -> Any:
    """Return title, description and bounds of a parameter for the form in Prefect's pages.

    They are extras of the schema: Prefect overwrites the usual ones.
    """
    described = text or ShuffleConfig.model_fields[name].description or ""
    return Field(json_schema_extra={"title": name.replace("_", " ").capitalize(), "description": described, **schema})


def _scheduled_time() -> datetime:
    moment = runtime.flow_run.scheduled_start_time
    return datetime.fromtimestamp(moment.timestamp(), UTC)


def _read_request(parameters: dict[str, Any]) -> ShuffleConfig:
    fields = {name: value for name, value in parameters.items() if name not in NOT_FIELDS}
    return resolve_request(
        parameters.get("config"),
        # A default in the form is "not given" here, so that it does not clash with a whole config.
        {name: value for name, value in fields.items() if value != _default(name)},
        epoch_from_schedule=bool(parameters.get("epoch_from_schedule")),
        scheduled=_scheduled_time(),
    )


def _default(name: str) -> Any:
    field = ShuffleConfig.model_fields[name]
    return None if field.is_required() else field.default


def _name_flow_run() -> str:
    try:
        return name_request(_read_request(dict(runtime.flow_run.parameters)))
    except RequestError:
        return "shuffle refused"


TARGET_TEXT = (
    "Zarr array or group to write. May hold {scheduled:%Y%m%d} (the scheduled time in UTC, in any strftime format), "
    "{seed} and {epoch}."
)
EPOCH_TEXT = (
    "Take the epoch from the schedule: minutes since 1970-01-01 UTC of the scheduled time, "
    "so that every firing has an order of its own."
)

# One JSON value in the form, where its fields would be a second copy of all the others. Its own schema would not do
# either: the bound of the seed, 2^64, is more than the JSON of Prefect's server can hold.
CONFIG_SCHEMA = WithJsonSchema(
    {
        "anyOf": [{"type": "object"}, {"type": "null"}],
        "title": "Config",
        "description": "A whole request as one value; or leave it out and give the fields.",
    }
)


@flow(
    name="shuffle-dataset",
    description="Put the rows of a Zarr dataset into a uniformly random order, exactly, with a certificate.",
    flow_run_name=_name_flow_run,
    validate_parameters=False,  # the engine's own messages are better, and its errors must come through unchanged
    persist_result=False,
    retries=0,
    log_prints=False,
)
def shuffle_dataset(
    config: Annotated[ShuffleConfig | None, CONFIG_SCHEMA] = None,
    *,
    source: Annotated[str | None, _form("source")] = None,
    target: Annotated[str | None, _form("target", TARGET_TEXT)] = None,
    seed: Annotated[int, _form("seed", minimum=0)] = 0,
    epoch: Annotated[int, _form("epoch", minimum=0)] = 0,
    epoch_from_schedule: Annotated[bool, _form("epoch_from_schedule", EPOCH_TEXT)] = False,
    memory: Annotated[str | int | None, _form("memory")] = None,
    workers: Annotated[int | None, _form("workers")] = None,
    scheduler: Annotated[str | None, _form("scheduler")] = None,
    row_dim: Annotated[str | None, _form("row_dim")] = None,
    chunk_rows: Annotated[int | None, _form("chunk_rows")] = None,
    shard_rows: Annotated[int | None, _form("shard_rows")] = None,
    codec: Annotated[str | None, _form("codec")] = None,
    zarr_format: Annotated[Literal[2, 3] | None, _form("zarr_format")] = None,
    work_dir: Annotated[str | None, _form("work_dir")] = None,
    keep_piles: Annotated[bool, _form("keep_piles")] = False,
    overwrite: Annotated[bool, _form("overwrite")] = False,
    verify_readback: Annotated[bool, _form("verify_readback")] = False,
    performance_report: Annotated[str | None, _form("performance_report")] = None,
    pile_rows: Annotated[int | None, _form("pile_rows")] = None,
    scatter_rows: Annotated[int | None, _form("scatter_rows")] = None,
    levels: Annotated[int | None, _form("levels")] = None,
) -> ShuffleReport:
    """Shuffle a dataset.

    Parameters
    ----------
    config
        The whole request; or leave it out and give its fields.
    source, target, seed, epoch, memory, workers, scheduler, row_dim, chunk_rows, shard_rows, codec, zarr_format, \
work_dir, keep_piles, overwrite, verify_readback, performance_report, pile_rows, scatter_rows, levels
        The fields of `shuffle_tasks.ShuffleConfig`. `target` is a template, see `flows.schedule.fill_target`.
    epoch_from_schedule
        Take the epoch from the flow run's scheduled time, see `flows.schedule.epoch_of_firing`.

    Returns
    -------
    ShuffleReport
        As from `shuffle_tasks.run_shuffle`.

    Raises
    ------
    RequestError
        If the request is wrong; nothing was read or written.
    RunError
        If the run failed; the target is not committed, and the same request resumes.
    prefect.exceptions.CancelledRun
        If the flow run was cancelled; the target is not committed.
    """
    request = _read_request(dict(locals()))
    name, run_id = str(runtime.flow_run.name), str(runtime.flow_run.id)
    observer = Several(current_watcher(), ProgressArtifacts(), CancelWatch(lambda: ask_server(run_id)))
    observer.note(describe_flow_run(name, run_id))
    labels = {"prefect_flow_run_id": run_id, "prefect_flow_run_name": name}
    try:
        with quiet_dask(), ShuffleRun(request, observer=observer, labels=labels) as run:
            if not run.already_complete:
                run_stages(run, request.source, request.target)
            report = run.report()
    except FlowRunCancelled as cancelled:
        # A state in place of a result is what Prefect takes as the run's own state; the caller gets its `CancelledRun`.
        return Cancelled(message=f"{cancelled}; the target is not committed")  # type: ignore[return-value]
    publish_summary(report)
    return report
