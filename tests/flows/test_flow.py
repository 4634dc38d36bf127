"""The Prefect flow against a real server: names, states, artifacts, the asset, cancelling."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
import zarr

import flows
from flows import cancelling
from flows.watching import watched_by
from shuffle_tasks import Permutation, RequestError, ShuffleConfig, ShuffleError, read_provenance
from shuffle_tasks.graph.progress import SilentObserver
from tests.flows.processes import ROWS, damage, is_committed, read_attempts, read_features

pytestmark = pytest.mark.usefixtures("server")

SMALL: dict[str, Any] = {"pile_rows": 1_000, "scatter_rows": 1_000, "scheduler": "synchronous"}


@pytest.fixture
def client() -> Iterator[Any]:
    """Return a client of the session's server."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as found:
        yield found


def post(client: Any, path: str, **body: Any) -> Any:
    """Return the server's answer to a query."""
    return client._client.post(path, json=body).raise_for_status().json()


def wait_for(query: Callable[[], Any], seconds: float = 30) -> Any:
    """Return the first answer that is not empty: events and task runs arrive a little later."""
    end = time.monotonic() + seconds
    while not (found := query()) and time.monotonic() < end:
        time.sleep(0.2)
    return found


def last_flow_run(client: Any) -> dict[str, Any]:
    """Return the flow run that started last."""
    found: dict[str, Any] = post(client, "/flow_runs/filter", sort="START_TIME_DESC", limit=1)[0]
    return found


def test_flow_is_the_package_attribute() -> None:
    """The package gives the flow, also after the module of the same name was imported."""
    import flows.shuffle_dataset
    from flows import shuffle_dataset

    assert type(shuffle_dataset).__name__ == "Flow"
    assert flows.shuffle_dataset is shuffle_dataset


def test_form() -> None:
    """The form has all fields of a request, with titles, descriptions, types and defaults that JSON can hold."""
    schema = flows.shuffle_dataset.parameters.model_dump()
    fields = schema["properties"]
    assert set(fields) == {"config", "epoch_from_schedule", *ShuffleConfig.model_fields}
    assert all(field["description"] and field["title"] for field in fields.values())
    assert (fields["seed"]["type"], fields["seed"]["default"], fields["seed"]["minimum"]) == ("integer", 0, 0)
    assert {"enum": [2, 3], "type": "integer"} in fields["zarr_format"]["anyOf"]
    numbers = [n for field in fields.values() for n in field.values() if isinstance(n, int)]
    assert max(numbers) < 2**63
    assert not schema["required"]


def test_run(client: Any, pets: Path, tmp_path: Path) -> None:
    """A flow run has telling names, full progress bars and a summary, and gives the defined order."""
    target = tmp_path / "target.zarr"
    report = flows.shuffle_dataset(ShuffleConfig(source=pets, target=target, seed=9, **SMALL))
    assert report.status == "complete"
    assert np.array_equal(read_features(target), read_features(pets)[Permutation(ROWS, 9).source_rows(0, ROWS)])

    run = last_flow_run(client)
    assert (run["name"], run["state_name"]) == ("shuffle pets.zarr seed 9 epoch 0", "Completed")
    assert read_provenance(str(target))["labels"]["prefect_flow_run_id"] == run["id"]

    mine = {"flow_runs": {"id": {"any_": [run["id"]]}}}
    tasks = wait_for(lambda: found if len(found := post(client, "/task_runs/filter", **mine)) == 6 else None)
    names = {task["name"] for task in tasks}
    assert names == {"plan", "scatter (4 tasks)", "combine", "shuffle (4 tasks)", "verify", "commit"}
    assert {task["state_name"] for task in tasks} == {"Completed"}

    artifacts = {found["key"]: found for found in post(client, "/artifacts/filter", **mine)}
    assert artifacts["shuffle-progress-scatter"]["data"] == 100.0
    assert artifacts["shuffle-progress-shuffle"]["data"] == 100.0
    summary = artifacts["shuffle-summary"]["data"]
    assert all(
        text in summary for text in (report.digests["content"], str(target), "| scatter |", "4 piles of 1,000 rows")
    )


def asset_events(client: Any, name: str) -> list[dict[str, Any]]:
    """Return the asset events whose resource ends with `name`."""
    window = {"since": "2020-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z"}
    found = post(
        client, "/events/filter", filter={"event": {"prefix": ["prefect.asset."]}, "occurred": window}, limit=50
    )
    return [event for event in found["events"] if event["resource"]["prefect.resource.id"].endswith(name)]


def test_asset(client: Any, pets: Path, tmp_path: Path) -> None:
    """The target is recorded as an asset made from the source, with its facts, whatever characters its path has."""
    target = tmp_path / "my target 100%.zarr"
    report = flows.shuffle_dataset(source=str(pets), target=str(target), **SMALL)
    (event,) = wait_for(lambda: asset_events(client, "my=20target=20100=25.zarr"))
    assert event["event"] == "prefect.asset.materialization.succeeded"
    assert event["payload"]["n"] == ROWS
    assert event["payload"]["digests"] == dict(report.digests)
    assert f"file://{pets}" in {related["prefect.resource.id"] for related in event["related"]}


def test_already_complete(client: Any, pets: Path, tmp_path: Path) -> None:
    """A repeated request completes without running any stage."""
    fields = {"source": str(pets), "target": str(tmp_path / "target.zarr"), **SMALL}
    first = flows.shuffle_dataset(**fields)
    again = flows.shuffle_dataset(**fields)
    assert (again.status, again.run_id) == ("already complete", first.run_id)
    run = last_flow_run(client)
    assert run["state_name"] == "Completed"
    assert post(client, "/task_runs/filter", flow_runs={"id": {"any_": [run["id"]]}}) == []


def test_refused(client: Any, tmp_path: Path) -> None:
    """A wrong request comes through unchanged, and the flow run says why it failed."""
    with pytest.raises(RequestError, match=r"nothing\.zarr"):
        flows.shuffle_dataset(source=str(tmp_path / "nothing.zarr"), target=str(tmp_path / "target.zarr"))
    run = last_flow_run(client)
    assert run["state_name"] == "Failed"
    assert "nothing.zarr" in run["state"]["message"]


def test_failed(client: Any, pets: Path, tmp_path: Path) -> None:
    """The engine's own error comes through, and is the message of the flow run and of the stage."""
    source, target = tmp_path / "source.zarr", tmp_path / "target.zarr"
    shutil.copytree(pets, source)
    damage(source)
    with pytest.raises(ShuffleError) as caught:
        flows.shuffle_dataset(source=str(source), target=str(target), **SMALL)
    run = last_flow_run(client)
    assert run["state_name"] == "Failed"
    assert str(caught.value) in run["state"]["message"]
    failed = {"flow_runs": {"id": {"any_": [run["id"]]}}, "task_runs": {"state": {"name": {"any_": ["Failed"]}}}}
    (task,) = wait_for(lambda: post(client, "/task_runs/filter", **failed))
    assert task["name"] == "scatter (4 tasks)"
    assert not is_committed(target)


class CancelAtFirstTask(SilentObserver):
    """Cancels the flow run, as the button in Prefect's pages does, once a task of the shuffle stage is done."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def task_finished(self, stage: str, done: int, total: int) -> None:
        """Propose the state Cancelling."""
        if stage == "shuffle" and done == 1:
            from prefect.states import Cancelling

            self.client.set_flow_run_state(UUID(last_flow_run(self.client)["id"]), Cancelling())


def test_cancelled(client: Any, pets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled flow run stops between two tasks, leaves the target uncommitted, and resumes when repeated."""
    from prefect.exceptions import CancelledRun

    monkeypatch.setattr(cancelling, "CHECK_SECONDS", 0.0)
    target = tmp_path / "target.zarr"
    config = ShuffleConfig(source=pets, target=target, **SMALL)
    with watched_by(CancelAtFirstTask(client)), pytest.raises(CancelledRun):
        flows.shuffle_dataset(config)
    assert last_flow_run(client)["state_name"] == "Cancelled"
    assert not is_committed(target)
    assert [attempt["status"] for attempt in read_attempts(target)] == ["cancelled"]

    report = flows.shuffle_dataset(config)
    assert report.status == "complete"
    assert report.stages["shuffle"]["found_done"] == 1


def test_scheduled(client: Any, pets: Path, tmp_path: Path) -> None:
    """A run's target and epoch come from the time for which it was scheduled, not from the time at which it runs."""
    from prefect.flow_engine import run_flow
    from prefect.states import Scheduled

    firing = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
    parameters = {
        "source": str(pets),
        "target": str(tmp_path / "shuffled-{scheduled:%Y%m%d}.zarr"),
        "epoch_from_schedule": True,
        **SMALL,
    }
    flow = flows.shuffle_dataset
    planned = client.create_flow_run(flow, parameters=parameters, state=Scheduled(scheduled_time=firing))
    report = run_flow(flow, flow_run=planned, parameters=parameters)
    epoch = int(firing.timestamp()) // 60
    assert report.target == str(tmp_path / "shuffled-20260301.zarr")
    assert report.epoch == epoch
    assert client.read_flow_run(planned.id).name == f"shuffle pets.zarr seed 0 epoch {epoch}"


def test_result_is_not_stored(pets: Path, tmp_path: Path) -> None:
    """Even where results are persisted by default, neither the report nor a stage's value is."""
    from prefect.settings import PREFECT_LOCAL_STORAGE_PATH, PREFECT_RESULTS_PERSIST_BY_DEFAULT, temporary_settings

    storage = tmp_path / "storage"
    with temporary_settings({PREFECT_RESULTS_PERSIST_BY_DEFAULT: True, PREFECT_LOCAL_STORAGE_PATH: storage}):
        flows.shuffle_dataset(source=str(pets), target=str(tmp_path / "target.zarr"), **SMALL)
    assert not storage.exists() or not list(storage.iterdir())


def test_bare_array(tmp_path: Path) -> None:
    """A bare array goes through the flow too."""
    values = np.arange(1_000, dtype="i8")
    zarr.create_array(tmp_path / "array.zarr", data=values, chunks=(100,))
    report = flows.shuffle_dataset(
        source=str(tmp_path / "array.zarr"), target=str(tmp_path / "out.zarr"), scheduler="synchronous"
    )
    shuffled = np.asarray(zarr.open_array(tmp_path / "out.zarr", mode="r")[:])
    assert np.array_equal(shuffled, values[Permutation(1_000, 0).source_rows(0, 1_000)])
    assert json.dumps(report.to_dict())
