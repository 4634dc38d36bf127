"""The metadata documents of every node of a Zarr hierarchy, read as they are stored."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from shuffle_tasks.errors import RequestError, StorageError
from shuffle_tasks.storage.objects import LocalObjects

V2_NAMES = (".zarray", ".zgroup", ".zattrs")


def node_documents(objects: LocalObjects, path: str) -> dict[str, Any]:
    """Return the metadata documents of one node by name, {} if there is no node at `path`."""
    prefix = f"{path}/" if path else ""
    document = _get_object(objects, f"{prefix}zarr.json")
    if document is not None:
        return {"zarr.json": document}
    found = {name: _get_object(objects, f"{prefix}{name}") for name in V2_NAMES}
    found = {name: value for name, value in found.items() if value is not None}
    return found if ".zarray" in found or ".zgroup" in found else {}


def _get_object(objects: LocalObjects, key: str) -> dict[str, Any] | None:
    value = objects.get_json(key)
    if value is None or isinstance(value, dict):
        return value
    raise StorageError(f"{objects.path(key)} holds no JSON object")


def is_array(documents: Mapping[str, Any]) -> bool:
    """Tell whether a node's documents describe an array."""
    return ".zarray" in documents or documents.get("zarr.json", {}).get("node_type") == "array"


def attributes_of(documents: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a node."""
    if "zarr.json" in documents:
        return dict(documents["zarr.json"].get("attributes") or {})
    return dict(documents.get(".zattrs") or {})


def dimensions_of(documents: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the dimension names of an array, or None if it has none (or only some)."""
    if "zarr.json" in documents:
        names = documents["zarr.json"].get("dimension_names")
    else:
        names = (documents.get(".zattrs") or {}).get("_ARRAY_DIMENSIONS")
    return tuple(names) if names is not None and None not in names else None


def shape_of(documents: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of an array."""
    return tuple((documents.get("zarr.json") or documents.get(".zarray") or {})["shape"])


def format_of(documents: Mapping[str, Any]) -> Literal[2, 3]:
    """Return the Zarr format of a node."""
    return 3 if "zarr.json" in documents else 2


def walk(objects: LocalObjects, path: str = "") -> dict[str, dict[str, Any]]:
    """Return the documents of the node at `path` and of every node below it, by path, in sorted order.

    Raises
    ------
    RequestError
        If a document is damaged, or of another Zarr format than the root.
    """
    documents = node_documents(objects, path)
    if not documents:
        return {}
    nodes = {path: documents}
    if is_array(documents):
        return nodes
    for name in sorted(entry.name for entry in os.scandir(objects.path(path)) if entry.is_dir()):
        nodes |= walk(objects, f"{path}/{name}" if path else name)
    mixed = [p for p, d in nodes.items() if format_of(d) != format_of(documents)]
    if mixed:
        raise RequestError(f"{objects.root} mixes Zarr formats: {mixed[0]!r} has another format than the root")
    return nodes


def object_shape_of(documents: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of one stored object of an array (a chunk, or a shard), from its raw metadata."""
    if "zarr.json" in documents:
        return tuple(documents["zarr.json"]["chunk_grid"]["configuration"]["chunk_shape"])
    return tuple(documents[".zarray"]["chunks"])


def object_keys(path: str, documents: Mapping[str, Any]) -> Iterator[str]:
    """Yield the key of every stored object that an array may have, without looking at the store."""
    shape, chunks = shape_of(documents), object_shape_of(documents)
    prefix = f"{path}/" if path else ""
    name = _object_namer(documents)
    for index in itertools.product(
        *(range(-(-size // chunk)) if chunk else range(0) for size, chunk in zip(shape, chunks, strict=True))
    ):
        yield prefix + name(index)


def _object_namer(documents: Mapping[str, Any]) -> Callable[[tuple[int, ...]], str]:
    """Return how an array names its objects: `c/0/1`, `0.1` or `0/1`."""
    if "zarr.json" in documents:
        encoding = documents["zarr.json"]["chunk_key_encoding"]
        default = encoding["name"] == "default"
        separator = encoding.get("configuration", {}).get("separator", "/" if default else ".")
        if default:
            return lambda index: separator.join(("c", *map(str, index)))
    else:
        separator = documents[".zarray"].get("dimension_separator", ".")
    return lambda index: separator.join(map(str, index)) or "0"
