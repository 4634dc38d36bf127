"""The cost function: peak bytes of data buffers in one worker thread, stage by stage, from the plan's numbers alone.

Every buffer that a task holds at its peak is a term here, and nothing else is: the tests compare the sum with the
measured growth of a worker's resident memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FIXED_BYTES = 24 * 2**20
"""Codec contexts, thread stacks, hash scratch, cached plan and JSON records of one task."""

PLAN_BYTES = 48 * 2**20
"""The histogram of leading key bits and the pairs around the borders; in the process that plans."""

ORDER_ROW_BYTES = 40
"""Beside a row: its key, its place in the order, two hash sums, and slack for the sort."""

DIGEST_ROW_BYTES = 96
"""Behind the rows, while they are digested: key, order, two sums, two hashes, position, and the scratch of mixing."""

PIECE_BYTES = 4 * 2**20
"""Decoded bytes of one stored chunk of a segment: larger ones leave the cache, smaller ones cost more calls."""

BLOCK_BYTES = 8 * 2**20
"""Decoded bytes of the widest variable that are read at a time when a dataset is verified."""

MAX_CHUNK_BYTES = 2**31 - 2**16
"""Blosc refuses larger buffers."""


@dataclass(frozen=True, slots=True)
class VariableSize:
    """Bytes and chunk rows of one variable, in the source and in the target.

    Attributes
    ----------
    path : str
        Path in the store.
    row_bytes : int
        Bytes of one decoded row.
    read_rows, read_bytes : int
        Rows and decoded bytes of the source's smallest readable piece (all its columns).
    source_rows : int
        Rows of one stored object of the source.
    unit_rows : int
        Rows of one stored object of the target: what one task must write alone.
    unit_copies : int
        Buffers of one target object that are alive while it is written: gathered, encoded, and (shards) assembled.
    """

    path: str
    row_bytes: int
    read_rows: int
    read_bytes: int
    source_rows: int
    unit_rows: int
    unit_copies: int = 3


def piece_rows(segment_rows: int, row_bytes: int) -> int:
    """Return the rows of one stored chunk of a segment: even parts of about `PIECE_BYTES`."""
    parts = max(1, -(-segment_rows * row_bytes // PIECE_BYTES))
    return max(1, -(-segment_rows // parts))


def _piece_peak(segment_rows: int, variables: Sequence[VariableSize]) -> int:
    """Return a bound on the bytes of one piece, gathered, encoded and with its checksum; it grows with the segment."""
    return max(3 * min(segment_rows * v.row_bytes, PIECE_BYTES + v.row_bytes) for v in variables)


def _widest(variables: Sequence[VariableSize]) -> int:
    return max(v.row_bytes for v in variables)


def _rows_peak(rows: int, variables: Sequence[VariableSize], more: int = 0) -> int:
    """Return the bytes of rows in memory with what is kept beside them, or of their digests, which come after them."""
    return rows * (more + max(_widest(variables) + ORDER_ROW_BYTES, DIGEST_ROW_BYTES))


def _read_peak(variables: Sequence[VariableSize]) -> int:
    """Return the encoded and the decoded bytes of one source chunk."""
    return max(2 * v.read_bytes for v in variables)


def _write_peak(variables: Sequence[VariableSize]) -> int:
    """Return the bytes of the copies of one target object."""
    return max(v.unit_copies * v.unit_rows * v.row_bytes for v in variables)


def scatter_peak(rows: int, segment_rows: int, variables: Sequence[VariableSize]) -> int:
    """Return the peak of a task that holds `rows` rows and cuts them into segments of at most `segment_rows`."""
    return FIXED_BYTES + _rows_peak(rows, variables) + _read_peak(variables) + _piece_peak(segment_rows, variables)


def rescatter_peak(rows: int, parent_rows: int, segment_rows: int, variables: Sequence[VariableSize]) -> int:
    """Return the peak of a task of a deeper level: `rows` rows out of segments of `parent_rows`."""
    return (
        FIXED_BYTES
        + _rows_peak(rows, variables)
        + _piece_peak(parent_rows, variables)
        + _piece_peak(segment_rows, variables)
    )


def shuffle_peak(pile_rows: int, segment_rows: int, variables: Sequence[VariableSize]) -> int:
    """Return the peak of shuffling a pile of `pile_rows` rows out of segments of at most `segment_rows`."""
    return (
        FIXED_BYTES + _rows_peak(pile_rows, variables) + _piece_peak(segment_rows, variables) + _write_peak(variables)
    )


def direct_peak(n: int, variables: Sequence[VariableSize]) -> int:
    """Return the peak of shuffling all `n` rows in memory."""
    return FIXED_BYTES + _rows_peak(n, variables, 16) + _read_peak(variables) + _write_peak(variables)


def readback_peak(variables: Sequence[VariableSize]) -> int:
    """Return the peak of reading the target again, block by block."""
    widest = max(variables, key=lambda v: v.row_bytes)
    rows = max(widest.unit_rows, BLOCK_BYTES // max(widest.row_bytes, 32))
    decoded = max(2 * v.unit_rows * v.row_bytes for v in variables)
    return FIXED_BYTES + _rows_peak(rows, variables) + decoded
