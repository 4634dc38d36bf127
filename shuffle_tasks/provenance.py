"""The provenance of a target: one versioned JSON record an attempt, failed ones too."""

from __future__ import annotations

import datetime as dt
import functools
import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import uuid
from collections.abc import Mapping
from typing import Any

from shuffle_tasks.errors import RequestError
from shuffle_tasks.request import ORDER_SCHEME, ORDER_VERSION, Request, metadata_digest
from shuffle_tasks.row_hash import ROW_HASH_VERSION
from shuffle_tasks.storage import tree
from shuffle_tasks.storage.objects import LocalObjects
from shuffle_tasks.storage.sources import PROVENANCE
from shuffle_tasks.storage.spec import RunSpec
from shuffle_tasks.storage.target import target_state

RECORD_VERSION = 1
_PACKAGES = ("pileshuffle", "zarr", "numcodecs", "numpy", "xarray", "dask", "distributed", "prefect")


def new_run_id() -> str:
    """Return a name for an attempt: its time in UTC and eight random hex digits."""
    return f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"


@functools.cache
def package_versions() -> dict[str, str]:
    """Return the versions of the packages that a result could depend on."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


@functools.cache
def git_commit() -> str | None:
    """Return the commit of the working directory's repository, if there is one."""
    if shutil.which("git") is None:
        return None
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, timeout=10)
    return done.stdout.strip() or None


def start_record(request: Request, run_id: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the record of an attempt that has just started."""
    config = request.config
    return {
        "version": RECORD_VERSION,
        "run_id": run_id,
        "status": "running",
        "started": dt.datetime.now(dt.UTC).isoformat(),
        "request_digest": request.digest,
        "request": dict(request.terms),
        "sources": [
            {
                "url": request.source.url,
                "metadata_digest": metadata_digest(request.source.nodes),
                "rows": request.source.n,
            }
        ],
        "target": request.target,
        "n": request.source.n,
        "seed": config.seed,
        "epoch": config.epoch,
        "row_dim": request.source.row_dim,
        "variables": [array.path for array in request.source.rows],
        "copied": list(request.source.copies),
        "order": {"scheme": ORDER_SCHEME, "version": ORDER_VERSION},
        "row_hash_version": ROW_HASH_VERSION,
        "packages": dict(package_versions()),
        "python": platform.python_version(),
        "git_commit": git_commit(),
        "host": socket.gethostname(),
        "labels": dict(labels),
    }


def describe_plan(spec: RunSpec) -> dict[str, Any]:
    """Return what a record tells of the plan: its numbers, rows a pile, and the codecs of the target."""
    codecs = {}
    for path in spec.paths:
        documents = spec.target_nodes[path]
        array = documents.get("zarr.json") or documents[".zarray"]
        codecs[path] = (
            array["codecs"] if "codecs" in array else {"compressor": array["compressor"], "filters": array["filters"]}
        )
    piles = range(spec.plan.piles)
    return {
        "plan": spec.plan.to_dict(),
        "plan_id": spec.plan_id,
        "rows_per_pile": [stop - start for start, stop in map(spec.plan.pile_span, piles)],
        "codecs": codecs,
    }


def write_attempt(work: str, record: Mapping[str, Any]) -> None:
    """Write the record of an attempt into the work directory."""
    LocalObjects(work).put_json(f"runs/{record['run_id']}.json", dict(record))


def earlier_attempts(work: str, run_id: str) -> dict[str, Any]:
    """Return the records of the other attempts of a run, by run id, oldest first.

    An attempt that says it is running was killed: two attempts never run at once.
    """
    folder = f"{work}/runs"
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = {}
    for name in names:
        if name.endswith(".json") and name != f"{run_id}.json":
            record = LocalObjects(work).get_json(f"runs/{name}")
            status = "killed" if record["status"] == "running" else record["status"]
            found[name.removesuffix(".json")] = {**record, "status": status}
    return _by_start(found)


def _by_start(records: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(records.items(), key=lambda item: str(item[1].get("started"))))


def read_records(target: str) -> dict[str, Any]:
    """Return all records of a committed target, by run id, oldest first.

    Raises
    ------
    RequestError
        If the target is missing, not committed, or has no record.
    """
    path = os.path.abspath(target)
    state, mark = target_state(path)
    if state == "absent":
        raise RequestError(f"the target {path} does not exist")
    if state == "uncommitted":
        raise RequestError(
            f"the target {path} is not committed: its run has not finished; "
            f"records of the attempts are in {mark.get('work')}/runs"
        )
    objects = LocalObjects(path)
    root = tree.node_documents(objects, "") if os.path.isdir(path) else {}
    if not root:
        raise RequestError(f"{path} is no Zarr array or group")
    records = tree.attributes_of(root).get(PROVENANCE, {}) if tree.is_array(root) else _group_records(objects)
    if not records:
        raise RequestError(
            f"{path} has no provenance record: it was not written by pileshuffle, or its record was removed"
        )
    return _by_start(records)


def _group_records(objects: LocalObjects) -> dict[str, Any]:
    folder = objects.path(PROVENANCE)
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()) if os.path.isdir(folder) else []
    return {name: tree.attributes_of(tree.node_documents(objects, f"{PROVENANCE}/{name}")) for name in names}


def read_provenance(target: str) -> dict[str, Any]:
    """Return the record of the run that wrote `target`.

    Raises
    ------
    RequestError
        If the target is missing, not committed, or has no record of a complete run.
    """
    complete = [r for r in read_records(target).values() if r.get("status") == "complete"]
    if not complete:
        raise RequestError(f"{target} has no record of a complete run")
    latest: dict[str, Any] = max(complete, key=lambda record: record["started"])
    return latest
