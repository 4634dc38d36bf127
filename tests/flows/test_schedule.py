"""Templates, epochs and the request of a flow run: no server, no data."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.schedule import epoch_of_firing, fill_target, literal_target, name_request, resolve_request
from shuffle_tasks import RequestError, ShuffleConfig

FIRING = datetime(2026, 3, 1, 2, 30, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("template", "target"),
    [
        ("plain.zarr", "plain.zarr"),
        ("shuffled-{scheduled:%Y%m%d}.zarr", "shuffled-20260301.zarr"),
        ("{scheduled}/x", "20260301T0230Z/x"),
        ("s{seed}e{epoch}-{scheduled:%H:%M}", "s7e9-02:30"),
        ("a{{b}}", "a{b}"),
    ],
)
def test_template(template: str, target: str) -> None:
    """A template is filled from the scheduled time, the seed and the epoch."""
    assert fill_target(template, FIRING, seed=7, epoch=9) == target


@pytest.mark.parametrize(
    "template", ["{day}", "{}", "{0}", "{scheduled.year}", "{seed!r}", "{seed:{epoch}}", "{", "}", "{seed:%Y}"]
)
def test_wrong_template(template: str) -> None:
    """Anything but the known placeholders is refused, with the template in the message."""
    with pytest.raises(RequestError) as caught:
        fill_target(template, FIRING, seed=7, epoch=9)
    assert template in str(caught.value)


def test_template_is_utc() -> None:
    """A scheduled time of another zone is told in UTC."""
    eastern = FIRING.astimezone(timezone(timedelta(hours=-5)))
    assert fill_target("{scheduled:%d %H}", eastern, seed=0, epoch=0) == "01 02"


@given(st.text())
def test_literal_target(path: str) -> None:
    """Every path can be written as a template."""
    assert fill_target(literal_target(path), FIRING, seed=0, epoch=0) == path


@given(st.integers(0, 221_845_392_000).map(lambda second: datetime.fromtimestamp(second, UTC)), st.integers(1, 10**6))
def test_epoch_ascends(firing: datetime, minutes: int) -> None:
    """Later minutes have larger epochs, within the range of an epoch."""
    first, later = epoch_of_firing(firing), epoch_of_firing(firing + timedelta(minutes=minutes))
    assert 0 <= first < later < 2**32


def test_fields_and_config_agree() -> None:
    """Fields, a whole configuration and its JSON mean the same request."""
    fields = {"source": "a.zarr", "target": "b.zarr", "seed": 3, "memory": "1 MiB"}
    config = ShuffleConfig(**fields)
    for given_config, given_fields in ((None, fields), (config, {}), (config.model_dump(), {})):
        request = resolve_request(given_config, given_fields, epoch_from_schedule=False, scheduled=FIRING)
        assert request == config


def test_epoch_from_schedule() -> None:
    """The epoch of a firing goes into the request, the template and the name of the run."""
    fields = {"source": "in/a.zarr/", "target": "{epoch}.zarr"}
    request = resolve_request(None, fields, epoch_from_schedule=True, scheduled=FIRING)
    epoch = int(FIRING.timestamp()) // 60
    assert (request.epoch, request.target) == (epoch, f"{epoch}.zarr")
    assert name_request(request) == f"shuffle a.zarr seed 0 epoch {epoch}"


@pytest.mark.parametrize(
    ("config", "fields", "scheduled_epoch", "words"),
    [
        ({"source": "a", "target": "b"}, {"seed": 3}, False, "not both; got config and seed"),
        (None, {"source": "a", "target": "b", "epoch": 4}, True, "not both; got epoch 4"),
        (None, {"target": "b"}, False, "source"),
        ({"source": "a", "target": "b", "sede": 3}, {}, False, "sede"),
        (None, {"source": "a", "target": "b", "seed": -1}, False, "seed"),
    ],
)
def test_wrong_request(
    config: dict[str, object] | None, fields: dict[str, object], *, scheduled_epoch: bool, words: str
) -> None:
    """A contradictory or wrong request is refused with the words that tell why."""
    with pytest.raises(RequestError, match=words):
        resolve_request(config, fields, epoch_from_schedule=scheduled_epoch, scheduled=FIRING)
