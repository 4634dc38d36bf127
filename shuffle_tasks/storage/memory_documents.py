"""Let zarr-python write a node's metadata into memory, and take the documents from there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore


def documents_in(zarr_format: int, create: Callable[[MemoryStore], object]) -> dict[str, Any]:
    """Return the metadata documents that `create` writes at the root of the empty store it is given."""
    store = MemoryStore()
    create(store)
    names = ("zarr.json",) if zarr_format == 3 else (".zarray", ".zgroup", ".zattrs")
    found = {}
    for name in names:
        data = sync(store.get(name, default_buffer_prototype()))
        if data is not None:
            found[name] = json.loads(data.to_bytes())
    return found
