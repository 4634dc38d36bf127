"""The target: a placeholder root that every reader refuses, the commit that replaces it, and the swap.

While a run is going on, the root holds three documents of "Zarr format 99": zarr-python (in every mode, the writing
ones included), xarray and the other readers refuse it. The commit writes the true root metadata, with everything
consolidated, by one atomic step.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from collections.abc import Mapping
from typing import Any

from shuffle_tasks.storage import tree
from shuffle_tasks.storage.objects import LocalObjects
from shuffle_tasks.storage.sources import PROVENANCE

_ROOT_NAMES = ("zarr.json", ".zgroup", ".zarray")
_MARK = "pileshuffle_uncommitted"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def placeholder(request_digest: str, work: str) -> dict[str, Any]:
    """Return the root document of a target that is not committed."""
    return {"zarr_format": 99, "node_type": "group", _MARK: {"request_digest": request_digest, "work": work}}


def target_state(root: str) -> tuple[str, dict[str, Any]]:
    """Return what is at a target's path.

    Returns
    -------
    state : str
        "absent", "uncommitted" (a run of ours that has not finished) or "present" (anything else).
    mark : dict
        What the placeholder says, {} unless uncommitted.
    """
    if not os.path.lexists(root) or (os.path.isdir(root) and not os.listdir(root)):
        return "absent", {}
    for name in _ROOT_NAMES:
        document = _read_lenient(LocalObjects(root), name)
        if isinstance(document, dict) and _MARK in document:
            return "uncommitted", dict(document[_MARK])
    return "present", {}


def _read_lenient(objects: LocalObjects, name: str) -> Any:
    try:
        data = objects.get(name)
        return json.loads(data) if data is not None else None
    except (OSError, ValueError):
        return None


def prepare_target(root: str, nodes: Mapping[str, Mapping[str, Any]], request_digest: str, work: str) -> None:
    """Write the placeholder root, then the other nodes' metadata: no reader ever sees a target without rows."""
    objects = LocalObjects(root)
    for name in _ROOT_NAMES:
        objects.put_json(name, placeholder(request_digest, work))
    for path, documents in nodes.items():
        if path:
            put_node(objects, path, documents)


def put_node(objects: LocalObjects, path: str, documents: Mapping[str, Any]) -> None:
    """Write the metadata documents of one node."""
    for name, value in documents.items():
        objects.put_json(f"{path}/{name}" if path else name, value)


def provenance_nodes(zarr_format: int, records: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the nodes of the group `provenance`: one subgroup a run, with its record as attributes."""
    nodes = {PROVENANCE: _group_documents(zarr_format, {})}
    for run_id, record in records.items():
        nodes[f"{PROVENANCE}/{run_id}"] = _group_documents(zarr_format, dict(record))
    return nodes


def _group_documents(zarr_format: int, attributes: dict[str, Any]) -> dict[str, Any]:
    if zarr_format == 3:
        return {"zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": attributes}}
    return {".zgroup": {"zarr_format": 2}, ".zattrs": attributes}


def commit_target(root: str, nodes: Mapping[str, Mapping[str, Any]], records: Mapping[str, Mapping[str, Any]]) -> None:
    """Replace the placeholder by the true root metadata: from then on the target is whole and readable.

    Parameters
    ----------
    root
        Directory of the target.
    nodes
        Its metadata documents by path.
    records
        Provenance records by run id, the last one being this run's. A group keeps them in `provenance`, an array in its
        attributes.
    """
    objects, zarr_format = LocalObjects(root), tree.format_of(nodes[""])
    if tree.is_array(nodes[""]):
        final = _with_attribute(nodes[""], PROVENANCE, dict(records))
    else:
        extra = provenance_nodes(zarr_format, records)
        for path, documents in extra.items():
            put_node(objects, path, documents)
        final = _consolidated({**nodes, **extra})
    if zarr_format == 3:
        objects.delete(".zarray")
        objects.delete(".zgroup")
        objects.put_json("zarr.json", final["zarr.json"])
        return
    # The placeholder `zarr.json` hides the documents of format 2 until it goes, last.
    kept = set(final)
    for name in (n for n in _ROOT_NAMES[1:] if n not in kept):
        objects.delete(name)
    put_node(objects, "", dict(sorted(final.items(), key=lambda item: item[0] in _ROOT_NAMES)))
    objects.delete("zarr.json")


def _with_attribute(documents: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    if "zarr.json" in documents:
        document = dict(documents["zarr.json"])
        return {"zarr.json": {**document, "attributes": {**(document.get("attributes") or {}), name: value}}}
    return {**documents, ".zattrs": {**(documents.get(".zattrs") or {}), name: value}}


def _consolidated(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the root documents with the metadata of all nodes inside."""
    root = dict(nodes[""])
    if "zarr.json" in root:
        children = {path: documents["zarr.json"] for path, documents in nodes.items() if path}
        metadata = {"kind": "inline", "must_understand": False, "metadata": children}
        return {"zarr.json": {**root["zarr.json"], "consolidated_metadata": metadata}}
    flat = {
        f"{path}/{name}" if path else name: value
        for path, documents in nodes.items()
        for name, value in documents.items()
    }
    return {**root, ".zmetadata": {"zarr_consolidated_format": 1, "metadata": flat}}


def swap_in(staged: str, target: str) -> None:
    """Put the complete `staged` in the place of `target`, atomically where the system can; remove the old one."""
    if not os.path.lexists(target):
        os.rename(staged, target)
        return
    if not _exchange(staged, target):
        old = f"{staged}.old"
        os.rename(target, old)
        os.rename(staged, target)
        os.rename(old, staged)
    if os.path.isdir(staged) and not os.path.islink(staged):
        shutil.rmtree(staged)
    else:
        os.unlink(staged)


def _exchange(one: str, other: str) -> bool:
    """Swap two paths by one system call; False where that does not exist."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)
