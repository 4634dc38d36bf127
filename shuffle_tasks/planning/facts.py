"""What the planner knows of a source: shapes, chunk sizes and stored bytes, as plain frozen values without any data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """One array of a source or target.

    Attributes
    ----------
    path : str
        Path in the store; "" is the root.
    dtype : str
        NumPy's array-protocol type string, or the repr of a structured one.
    itemsize : int
        Bytes of one element.
    row_shape : tuple of int
        Shape of one row.
    object_shape : tuple of int
        Shape of one stored object (a chunk, or a shard).
    read_rows : int
        Rows of the smallest piece that can be read on its own (a chunk, or a shard's inner chunk).
    length : int
        Rows.
    stored_bytes : int
        Bytes of its stored objects.
    """

    path: str
    dtype: str
    itemsize: int
    row_shape: tuple[int, ...]
    object_shape: tuple[int, ...]
    read_rows: int
    length: int
    stored_bytes: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one decoded row."""
        return self.itemsize * math.prod(self.row_shape)

    @property
    def object_rows(self) -> int:
        """Rows of one stored object."""
        return self.object_shape[0]


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """A source that can be shuffled.

    Attributes
    ----------
    url : str
        Absolute path.
    kind : str
        "array" or "group".
    zarr_format : int
        2 or 3.
    n : int
        Rows.
    row_dim : str or None
        Name of the row dimension; None if the arrays are unnamed.
    rows : tuple of ArrayFacts
        The arrays that are shuffled, all with `n` rows.
    copies : tuple of str
        Paths of the arrays that are copied as they are.
    copied_bytes : int
        Stored bytes of the copied arrays.
    nodes : mapping
        Path of every node → its metadata documents by name.
    """

    url: str
    kind: str
    zarr_format: int
    n: int
    row_dim: str | None
    rows: tuple[ArrayFacts, ...]
    copies: tuple[str, ...]
    copied_bytes: int
    nodes: Mapping[str, Mapping[str, Any]]

    @property
    def row_bytes(self) -> int:
        """Bytes of one decoded row over all shuffled arrays."""
        return sum(array.row_bytes for array in self.rows)

    @property
    def stored_bytes(self) -> int:
        """Stored bytes of the shuffled arrays."""
        return sum(array.stored_bytes for array in self.rows)
