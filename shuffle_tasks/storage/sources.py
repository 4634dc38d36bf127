"""Open a source: find its row dimension, the arrays to shuffle and those to copy, and refuse what cannot be shuffled.

Only metadata is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from shuffle_tasks.errors import RequestError, ShuffleError
from shuffle_tasks.planning.facts import ArrayFacts, SourceFacts
from shuffle_tasks.planning.rowdim import NamedArray, choose_rows
from shuffle_tasks.storage import tree
from shuffle_tasks.storage.chunks import array_from_documents
from shuffle_tasks.storage.objects import LocalObjects

PROVENANCE = "provenance"
_FIXED_KINDS = "biufcmMSUV"


def open_source(url: str, row_dim: str | None = None) -> SourceFacts:
    """Return the facts of the Zarr array or group at `url`.

    Parameters
    ----------
    url
        Local path of a Zarr array or group, format 2 or 3.
    row_dim
        Name of the row dimension; None takes the only candidate.

    Raises
    ------
    RequestError
        If it is missing, no Zarr, has no row dimension or several, arrays of different length, or a dtype without fixed
        size.
    """
    path = os.path.abspath(url)
    nodes = _read_nodes(path)
    try:
        _check_supported_arrays(path, nodes)
        arrays = {p: _named(p, d) for p, d in nodes.items() if tree.is_array(d)}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(f"the source {path} has damaged metadata: {type(error).__name__}: {error}") from error
    choice = choose_rows(list(arrays.values()), row_dim, source=path)
    objects = LocalObjects(path)
    return SourceFacts(
        url=path,
        kind="array" if "" in arrays else "group",
        zarr_format=tree.format_of(nodes[""]),
        n=choice.n,
        row_dim=choice.dim,
        rows=tuple(array_facts(objects, p, nodes[p], sum(objects.walk_sizes(p))) for p in choice.rows),
        copies=choice.copies,
        copied_bytes=sum(sum(objects.walk_sizes(p)) for p in choice.copies),
        nodes=nodes,
    )


def _named(path: str, documents: Mapping[str, Any]) -> NamedArray:
    try:
        shape = tree.shape_of(documents)
    except (KeyError, TypeError) as error:
        raise ValueError(f"array {path or '(root)'!r} has no shape") from error
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"array {path or '(root)'!r} has the shape {shape}")
    return NamedArray(path, shape, tree.dimensions_of(documents))


def _read_nodes(path: str) -> dict[str, dict[str, Any]]:
    if not os.path.exists(path):
        raise RequestError(f"the source {path} does not exist: give the path of a Zarr array or group")
    try:
        nodes = tree.walk(LocalObjects(path)) if os.path.isdir(path) else {}
    except (ShuffleError, UnicodeDecodeError) as error:
        raise RequestError(f"the source {path} has damaged metadata: {error}") from error
    if not nodes:
        raise RequestError(f"the source {path} is no Zarr array or group: it has no zarr.json, .zarray or .zgroup")
    root = nodes[""].get("zarr.json") or nodes[""].get(".zgroup") or nodes[""].get(".zarray") or {}
    if root.get("zarr_format") not in (2, 3):
        raise RequestError(
            f"the source {path} is a dataset that was never committed, or of an unknown Zarr format: {root}"
        )
    if any(p == PROVENANCE or p.startswith(f"{PROVENANCE}/") for p in nodes):
        raise RequestError(
            f"the source {path} has a member named {PROVENANCE!r}, where the target keeps "
            "its records: rename or remove it"
        )
    return nodes


def _check_supported_arrays(path: str, nodes: Mapping[str, Mapping[str, Any]]) -> None:
    for name, documents in nodes.items():
        if tree.is_array(documents) and "zarr.json" in documents:
            grid = documents["zarr.json"].get("chunk_grid", {}).get("name")
            if grid != "regular":
                raise RequestError(
                    f"array {name!r} of {path} has the chunk grid {grid!r}: only regular chunks can be shuffled"
                )


def array_facts(objects: LocalObjects, path: str, documents: Mapping[str, Any], stored_bytes: int = 0) -> ArrayFacts:
    """Return the facts of one array from its documents.

    Raises
    ------
    RequestError
        If its dtype has no fixed size, or its metadata cannot be understood.
    """
    _check_fixed_size(path, documents)
    try:
        array = array_from_documents(objects, path, documents)
        dtype = np.dtype(array.dtype)
    except Exception as error:
        raise RequestError(
            f"the metadata of array {path or '(root)'!r} in {objects.root} cannot be used: {error}"
        ) from error
    _check_dtype(path, dtype)
    chunks = array.shards or array.chunks
    return ArrayFacts(
        path=path,
        dtype=dtype.str if dtype.fields is None else str(dtype),
        itemsize=dtype.itemsize,
        row_shape=tuple(array.shape[1:]),
        object_shape=tuple(chunks),
        read_rows=array.chunks[0],
        length=array.shape[0],
        stored_bytes=stored_bytes,
    )


_FIX = "convert it to a fixed-length string, a number or a boolean first"


def _check_fixed_size(path: str, documents: Mapping[str, Any]) -> None:
    """Look at the raw dtype before anything builds a codec from it."""
    name = documents["zarr.json"].get("data_type") if "zarr.json" in documents else documents[".zarray"].get("dtype")
    if isinstance(name, str) and (name in ("string", "variable_length_bytes", "bytes") or name.endswith("O")):
        raise RequestError(f"array {path or '(root)'!r} has the dtype {name!r}, whose rows have no fixed size: {_FIX}")
    if isinstance(name, list) and "O" in str([field[1] for field in name]):
        raise RequestError(f"array {path or '(root)'!r} has object fields, {name!r}: {_FIX}")


def _check_dtype(path: str, dtype: np.dtype[Any]) -> None:
    if dtype.kind not in _FIXED_KINDS or dtype.hasobject or dtype.itemsize == 0:
        raise RequestError(f"array {path or '(root)'!r} has the dtype {dtype}, whose rows have no fixed size: {_FIX}")
    if dtype.fields is not None and not dtype.isnative:
        raise RequestError(
            f"array {path or '(root)'!r} has the structured dtype {dtype} with fields that are not in this "
            "machine's byte order, "
            "which Zarr libraries corrupt: store it with native byte order"
        )
