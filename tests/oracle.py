"""The shuffle in memory: the definition of the order in a few lines of NumPy, independent of the package.

Row i has the key "word i of a Philox4x64-10 stream"; the shuffled dataset is the rows in ascending (key, i).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.errors import UnstableSpecificationWarning

GLOBAL_ORDER = 1


def row_keys(n: int, seed: int, epoch: int = 0, bits: int = 64) -> NDArray[np.uint64]:
    """Return the leading `bits` bits of the keys of rows [0, n)."""
    key = np.array([seed, GLOBAL_ORDER << 32 | epoch], np.uint64)
    words = np.random.Philox(key=key, counter=np.zeros(4, np.uint64)).random_raw(n)
    return words >> np.uint64(64 - bits)


def row_order(n: int, seed: int, epoch: int = 0, bits: int = 64) -> NDArray[np.int64]:
    """Return the source row at each target row."""
    return np.lexsort((np.arange(n), row_keys(n, seed, epoch, bits)))


def native_bytes(values: NDArray[Any]) -> bytes:
    """Return the bytes of values in this machine's byte order: NaN payloads and signs of zero count."""
    return values.astype(values.dtype.newbyteorder("="), copy=False).tobytes()


def stored_values(path: Any) -> dict[str, NDArray[Any]]:
    """Return the values of all arrays of a dataset by path ("" for a bare array), without its provenance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnstableSpecificationWarning)
        root = zarr.open(path, mode="r")
        if isinstance(root, zarr.Array):
            return {"": np.asarray(root[...])}
        members = dict(root.members(max_depth=None))
        return {name: np.asarray(member[...]) for name, member in members.items() if isinstance(member, zarr.Array)}


def assert_rows_in_order(target: Any, rows: dict[str, NDArray[Any]], order: NDArray[np.int64]) -> None:
    """Check that the target holds exactly `rows` in `order`, bit for bit."""
    found = stored_values(target)
    assert found.keys() == rows.keys()
    for name, values in rows.items():
        assert found[name].dtype.newbyteorder("=") == values.dtype.newbyteorder("="), name
        assert found[name].shape == values.shape, name
        assert native_bytes(found[name]) == native_bytes(values[order]), name
