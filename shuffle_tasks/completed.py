"""Whether an identical request has finished before."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from shuffle_tasks.errors import ShuffleError
from shuffle_tasks.planning.config import ShuffleConfig
from shuffle_tasks.provenance import read_records
from shuffle_tasks.request import Request, open_request


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
