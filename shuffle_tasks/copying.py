"""Copy the arrays that do not have the row dimension, object by object, unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np

from shuffle_tasks.errors import StorageError
from shuffle_tasks.measure import TaskMeter
from shuffle_tasks.storage import tree
from shuffle_tasks.storage.chunks import array_from_documents
from shuffle_tasks.storage.objects import LocalObjects
from shuffle_tasks.storage.records import write_record
from shuffle_tasks.storage.spec import RunSpec, TaskRef


def copy_array(ref: TaskRef) -> dict[str, Any]:
    """Copy one array of the source to the target, and return the commit record.

    With the same Zarr format the stored bytes are copied, whatever their codecs; else values are decoded and encoded.

    Raises
    ------
    StorageError
        If a value cannot be decoded (another format only).
    """
    spec, meter = ref.spec(), TaskMeter()
    path = spec.copies[ref.index]
    same = tree.format_of(spec.source_nodes[path]) == tree.format_of(spec.target_nodes[path])
    copied = _copy_objects(spec, path) if same else _convert_values(spec, path)
    return write_record(ref, {"path": path, "bytes_read": copied, "bytes_written": copied, **meter.summary()})


def _copy_objects(spec: RunSpec, path: str) -> int:
    source, target = LocalObjects(spec.source_url), LocalObjects(spec.target_root)
    copied = 0
    for key in tree.object_keys(path, spec.source_nodes[path]):
        data = source.get(key)
        if data is not None:
            target.put(key, data)
            copied += len(data)
    return copied


def _convert_values(spec: RunSpec, path: str) -> int:
    source = array_from_documents(LocalObjects(spec.source_url), path, spec.source_nodes[path])
    target = array_from_documents(LocalObjects(spec.target_root), path, spec.target_nodes[path])
    step = (target.shards or target.chunks or (1,))[0] or 1
    try:
        if not source.shape:
            target[...] = np.asarray(source[...])
            return target.nbytes
        for start in range(0, source.shape[0], step):
            target[start : start + step] = source[start : start + step]
    except Exception as error:
        raise StorageError(
            f"array {path!r} of {spec.source_url} cannot be converted to the target's Zarr format: {error}"
        ) from error
    return int(target.nbytes)
