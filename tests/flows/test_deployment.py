"""The deployment in `infra/prefect.yaml` fits the flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def deployment() -> dict[str, Any]:
    """Return the only deployment of the file."""
    document = yaml.safe_load((ROOT / "infra" / "prefect.yaml").read_text(encoding="utf-8"))
    (found,) = document["deployments"]
    return dict(found)


def test_entrypoint(deployment: dict[str, Any]) -> None:
    """The entrypoint is the flow."""
    from prefect.flows import load_flow_from_entrypoint

    flow = load_flow_from_entrypoint(deployment["entrypoint"], use_placeholder_flow=False)
    assert flow.name == "shuffle-dataset"


def test_parameters(deployment: dict[str, Any]) -> None:
    """The parameters pass the check of Prefect's server and are a request."""
    from datetime import UTC, datetime

    from prefect.utilities.schema_tools import validate

    from flows import shuffle_dataset
    from flows.schedule import resolve_request

    parameters = deployment["parameters"]
    validate(parameters, shuffle_dataset.parameters.model_dump(), raise_on_error=True)
    fields = {name: value for name, value in parameters.items() if name != "epoch_from_schedule"}
    firing = datetime(2026, 11, 20, 2, tzinfo=UTC)
    request = resolve_request(None, fields, epoch_from_schedule=parameters["epoch_from_schedule"], scheduled=firing)
    assert request.target == "shuffled-20261120.zarr"
    assert request.epoch > 0


def test_schedule_and_limit(deployment: dict[str, Any]) -> None:
    """The schedule and the limit are what Prefect understands: cron, one run at a time, the others wait."""
    from prefect.client.schemas.objects import ConcurrencyLimitConfig
    from prefect.client.schemas.schedules import CronSchedule

    (schedule,) = deployment["schedules"]
    assert CronSchedule(**schedule).timezone == "UTC"
    limit = ConcurrencyLimitConfig(**deployment["concurrency_limit"])
    assert (limit.limit, limit.collision_strategy) == (1, "ENQUEUE")
