"""Reading a finished target again: each change of it, or of the source, fails the check that it breaks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from strategies import synchronous

from shuffle_tasks import ShuffleConfig, run_shuffle, verify

N = 120


def write_source(path: Path) -> None:
    """Write images and labels, every row another one."""
    root = zarr.create_group(path)
    images = np.random.Generator(np.random.Philox(4)).normal(size=(N, 3)).astype("f4")
    root.create_array("images", data=images, chunks=(20, 3), dimension_names=["row", "x"])
    root.create_array("labels", data=np.arange(N, dtype="i8"), chunks=(10,), dimension_names=["row"])


@pytest.fixture
def finished(tmp_path: Path) -> ShuffleConfig:
    """Return the request of a finished run."""
    write_source(tmp_path / "in.zarr")
    config = synchronous(tmp_path / "in.zarr", tmp_path / "out.zarr", seed=6, pile_rows=40, scatter_rows=50)
    run_shuffle(config)
    return config


def rewrite(target: str, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Rewrite an array with valid chunks of other values."""
    array = zarr.open_array(target, path=name, mode="r+")
    array[...] = change(np.asarray(array[...]))


def swapped(values: np.ndarray) -> np.ndarray:
    """Exchange two rows."""
    values[[3, 90]] = values[[90, 3]]
    return values


def flipped(values: np.ndarray) -> np.ndarray:
    """Flip one bit of one row."""
    values.view("u1").reshape(len(values), -1)[17, 2] ^= 1
    return values


def repeated(values: np.ndarray) -> np.ndarray:
    """Write one row over another."""
    values[50] = values[51]
    return values


def failing(config: ShuffleConfig, **fields: Any) -> set[str]:
    """Return the names of the checks that fail."""
    report = verify(config.target, **fields)
    assert report.to_dict()["ok"] is report.ok
    return {check.name for check in report.checks if not check.ok}


@pytest.mark.parametrize(
    ("names", "change", "expected"),
    [
        (["images", "labels"], swapped, {"binding", "order"}),
        (["labels"], swapped, {"content", "binding", "order"}),
        (["images"], flipped, {"content", "binding", "order"}),
        (["images", "labels"], repeated, {"content", "binding", "order"}),
        (["labels"], lambda values: np.roll(values, 1), {"content", "binding", "order"}),
        (["images", "labels"], lambda values: np.roll(values, 1, axis=0), {"binding", "order"}),
        (["images"], lambda values: -values, {"content", "binding", "order"}),
        (["images", "labels"], lambda values: values, set()),
    ],
)
def test_verify_names_what_was_changed(
    finished: ShuffleConfig, names: list[str], change: Callable[[np.ndarray], np.ndarray], expected: set[str]
) -> None:
    """Valid chunks with other values fail exactly the digests that they break."""
    for name in names:
        rewrite(finished.target, name, change)
    assert failing(finished) == expected


def damage_chunk(data: bytes) -> bytes:
    """Flip a byte in the middle."""
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 0x55]) + data[len(data) // 2 + 1 :]


@pytest.mark.parametrize("damage", [lambda data: data[:-3], lambda data: data[:0], damage_chunk])
def test_verify_names_a_damaged_chunk(finished: ShuffleConfig, damage: Callable[[bytes], bytes]) -> None:
    """A truncated, empty or changed stored chunk fails, and is named or breaks the digests."""
    path = Path(finished.target) / "images/c/2/0"
    path.write_bytes(damage(path.read_bytes()))
    report = verify(finished.target)
    failed = {check.name: check.detail for check in report.checks if not check.ok}
    assert failed
    assert failed.keys() & {"readable", "content"}
    if "readable" in failed:
        assert "images/c/2/0" in failed["readable"]


def test_verify_names_a_lost_chunk(finished: ShuffleConfig) -> None:
    """A stored chunk that is gone fails by its key, and is never read as fill values."""
    (Path(finished.target) / "images/c/2/0").unlink()
    report = verify(finished.target)
    assert [(c.name, "images/c/2/0" in c.detail) for c in report.checks if not c.ok] == [("objects", True)]


def test_verify_names_a_shorter_array(finished: ShuffleConfig) -> None:
    """An array with fewer rows than were written fails."""
    zarr.open_array(finished.target, path="labels", mode="r+").resize((N - 1,))
    assert failing(finished) == {"variables"}


def test_verify_names_a_lost_array(finished: ShuffleConfig) -> None:
    """An array without metadata fails."""
    (Path(finished.target) / "labels/zarr.json").unlink()
    assert failing(finished) == {"variables"}


def test_verify_names_another_source(finished: ShuffleConfig) -> None:
    """A source that was changed since fails the checks of the source, and only these."""
    assert verify(finished.target, finished.source).ok
    rewrite(finished.source, "labels", swapped)
    assert failing(finished, source=finished.source) == {"source content", "source binding"}
    assert verify(finished.target).ok


def test_verify_names_a_source_in_another_order(finished: ShuffleConfig) -> None:
    """The target itself is no valid source: its rows are the same, in another order."""
    assert failing(finished, source=finished.target) == {"source binding"}
