"""From a flow run's parameters and its scheduled time to one request: target templates and the epoch of a firing.

A deployment runs the same parameters again and again. Its target is a template, filled from the time for which the run
was scheduled (not the time at which it started, so that a late or repeated run means the same target), and its epoch
can be that time, so that every firing has an order of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from string import Formatter
from typing import Any

from shuffle_tasks.errors import RequestError
from shuffle_tasks.planning.config import ShuffleConfig, make_config

PLACEHOLDERS = ("scheduled", "seed", "epoch")
DEFAULT_TIME_FORMAT = "%Y%m%dT%H%MZ"


def epoch_of_firing(scheduled: datetime) -> int:
    """Return the epoch of a scheduled time: whole minutes since 1970-01-01T00:00 UTC.

    A minute is the resolution of cron: epochs ascend strictly from firing to firing, and stay below 2^32 for
    8,000 years.
    """
    return int(scheduled.timestamp()) // 60


def fill_target(template: str, scheduled: datetime, seed: int, epoch: int) -> str:
    """Return the target that a template names.

    Parameters
    ----------
    template
        A path with the placeholders ``{scheduled:FORMAT}`` (strftime, in UTC), ``{seed}`` and ``{epoch}``;
        ``{{`` and ``}}`` stand for the braces themselves.
    scheduled
        The time for which the run was scheduled.
    seed, epoch
        The order.

    Raises
    ------
    RequestError
        If the template has another placeholder or is malformed.
    """
    values: dict[str, datetime | int] = {"scheduled": scheduled.astimezone(UTC), "seed": seed, "epoch": epoch}
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise RequestError(f"target: {error} in the template {template!r}; write {{{{ and }}}} for braces") from error
    return "".join(
        literal + _fill(name, spec, conversion, values, template) for literal, name, spec, conversion in parts
    )


def _fill(name: str | None, spec: str | None, conversion: str | None, values: Mapping[str, Any], template: str) -> str:
    if name is None:
        return ""
    if name not in PLACEHOLDERS or conversion or "{" in (spec or ""):
        known = ", ".join(f"{{{placeholder}}}" for placeholder in PLACEHOLDERS)
        raise RequestError(f"target: unknown placeholder {{{name}}} in the template {template!r}; known are {known}")
    try:
        return format(values[name], spec or (DEFAULT_TIME_FORMAT if name == "scheduled" else ""))
    except ValueError as error:
        raise RequestError(f"target: {error} in {{{name}:{spec}}} of the template {template!r}") from error


def literal_target(path: str) -> str:
    """Return the template that stands for exactly this path."""
    return path.replace("{", "{{").replace("}", "}}")


def resolve_request(
    config: ShuffleConfig | Mapping[str, Any] | None,
    fields: Mapping[str, Any],
    *,
    epoch_from_schedule: bool,
    scheduled: datetime,
) -> ShuffleConfig:
    """Return the request of one flow run.

    Parameters
    ----------
    config
        A whole request, as a value or (from a deployment) as JSON.
    fields
        Or its fields; None stands for a field that was not given.
    epoch_from_schedule
        Take the epoch from `scheduled`.
    scheduled
        The time for which the run was scheduled.

    Raises
    ------
    RequestError
        If both or neither are given, or the request is wrong.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    if config is not None and given:
        raise RequestError(f"give a ShuffleConfig or its fields, not both; got config and {', '.join(given)}")
    if config is not None:
        given = dict(config) if isinstance(config, Mapping) else config.model_dump(exclude_unset=True)
    if epoch_from_schedule:
        if given.get("epoch"):
            raise RequestError(f"give an epoch or epoch_from_schedule, not both; got epoch {given['epoch']}")
        given["epoch"] = epoch_of_firing(scheduled)
    request = make_config(**given)
    target = fill_target(request.target, scheduled, request.seed, request.epoch)
    return request.model_copy(update={"target": target})


def name_request(request: ShuffleConfig) -> str:
    """Return the name of a flow run, which says source, seed and epoch."""
    source = request.source.rstrip("/").rpartition("/")[2] or request.source
    return f"shuffle {source} seed {request.seed} epoch {request.epoch}"
