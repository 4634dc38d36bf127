"""One Prefect task a stage, each a single call of the engine.

The tasks are called directly, in the flow's own thread: a stage is one Dask graph, and Prefect only records it. They
take the open run as it is, wrapped in `quote`, so that Prefect neither walks through it nor hashes, stores or pickles
it. There are no retries here: a repeated flow run resumes from the commit records.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote as percent_quote

from prefect import Task, task
from prefect.assets import Asset, AssetProperties, add_asset_metadata, materialize
from prefect.cache_policies import NO_CACHE
from prefect.tasks import TaskRunNameCallbackWithParameters
from prefect.utilities.annotations import quote

from shuffle_tasks import STAGES

if TYPE_CHECKING:
    from shuffle_tasks.planning.plan import Plan
    from shuffle_tasks.run import ShuffleRun

    StageCall = Callable[[ShuffleRun], None]

MAX_KEY_CHARACTERS = 512


def _stage_task(stage: str) -> Callable[[StageCall], Task[[ShuffleRun], None]]:
    return task(task_run_name=_namer(stage), cache_policy=NO_CACHE, persist_result=False, retries=0)


def _namer(stage: str) -> TaskRunNameCallbackWithParameters:
    def name_task_run(parameters: dict[str, Any]) -> str:
        return label_stage(stage, parameters["run"].plan)

    return cast("TaskRunNameCallbackWithParameters", name_task_run)  # what Prefect takes any such function for


@_stage_task("plan")
def plan(run: ShuffleRun) -> None:
    """Fix every number of the run, the borders of the piles included, and store the plan."""
    run.run_stage("plan")


@_stage_task("scatter")
def scatter(run: ShuffleRun) -> None:
    """Read the source once and throw every row on its pile."""
    run.run_stage("scatter")


@_stage_task("combine")
def combine(run: ShuffleRun) -> None:
    """Prove that every row is in exactly one pile, and consolidate the piles."""
    run.run_stage("combine")


@_stage_task("shuffle")
def shuffle(run: ShuffleRun) -> None:
    """Sort every pile by key and write its rows to the target."""
    run.run_stage("shuffle")


@_stage_task("verify")
def verify(run: ShuffleRun) -> None:
    """Compare the certificate's digests, the order of the keys and the target's objects."""
    run.run_stage("verify")


def commit(run: ShuffleRun) -> None:
    """Make the target visible by one atomic write, and record it as an asset."""
    run.run_stage("commit")
    report = run.report()
    facts = {"run_id": report.run_id, "n": report.n, "seed": report.seed, "epoch": report.epoch}
    add_asset_metadata(asset_key(report.target), facts | {"digests": dict(report.digests)})


def run_stages(run: ShuffleRun, source: str, target: str) -> None:
    """Run all stages of an entered run as Prefect tasks, in order."""
    target_asset = Asset(key=asset_key(target), properties=AssetProperties(name=Path(target).name))
    tasks = {"plan": plan, "scatter": scatter, "combine": combine, "shuffle": shuffle, "verify": verify}
    tasks["commit"] = materialize(
        target_asset, by="pileshuffle", asset_deps=[Asset(key=asset_key(source))],
        name="commit", task_run_name=_namer("commit"), cache_policy=NO_CACHE, persist_result=False, retries=0,
    )(commit)  # fmt: skip
    unseen = cast("ShuffleRun", quote(run))  # Prefect unwraps it when it calls the task
    for stage in STAGES:
        tasks[stage](unseen)


def label_stage(stage: str, plan: Plan) -> str:
    """Return the name of a stage's task run, with its number of tasks where that is in the plan."""
    counts = {"scatter": plan.scatter_tasks, "shuffle": plan.piles}
    if stage not in counts:
        return stage
    count = counts[stage]
    return f"{stage} ({count:,} {'task' if count == 1 else 'tasks'})" if count else f"{stage} (nothing to do)"


def asset_key(path: str) -> str:
    """Return the asset key of a local path.

    Keys are URIs without blanks, percent signs and most punctuation, of at most 512 characters: any other character
    becomes ``=XX``, the bytes of its UTF-8 code, and of too long a path the end is kept.
    """
    encoded = percent_quote(str(Path(path).absolute()), safe="/:@+,;()!*$-._~").replace("%", "=")
    return "file://" + encoded[-(MAX_KEY_CHARACTERS - len("file://")) :]
