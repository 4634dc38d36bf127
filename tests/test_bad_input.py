"""Bad input is refused before any work: the message has the facts, and nothing is created on disk."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from bad_requests import CASES, Case, write_group
from oracle import assert_rows_in_order, row_order, stored_values
from strategies import synchronous

from shuffle_tasks import RequestError, plan_shuffle, run_shuffle
from shuffle_tasks.graph import cluster
from shuffle_tasks.planning import memory
from shuffle_tasks.planning.config import make_config

Usage = namedtuple("Usage", "total used free")  # noqa: PYI024 - what shutil.disk_usage returns


def files_below(folder: Path) -> list[str]:
    """Return everything below a folder, with the times of change of files."""
    return sorted(f"{path} {path.lstat().st_mtime_ns if path.is_file() else ''}" for path in folder.rglob("*"))


@pytest.mark.parametrize(("case", "facts"), CASES, ids=[case.__name__ for case, _ in CASES])
@pytest.mark.parametrize("ask", [plan_shuffle, run_shuffle])
def test_bad_input_is_refused(tmp_path: Path, case: Case, facts: list[str], ask: Callable[[Any], Any]) -> None:
    """Planning and running refuse the request with the facts in the message, and leave no trace on disk."""
    fields = case(tmp_path)
    before = files_below(tmp_path)
    with pytest.raises(RequestError) as caught:
        ask(
            make_config(
                **{"source": tmp_path / "in.zarr", "target": tmp_path / "out.zarr", "scheduler": "synchronous"} | fields
            )
        )
    for fact in facts:
        assert fact in str(caught.value)
    assert files_below(tmp_path) == before


class Canary:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        """Make the file."""
        return os.mkdir, (self.path,)


def pickled_array(folder: Path) -> None:
    """Write an array of format 2 whose chunks are pickles, as zarr-python 2 did."""
    meta = {
        "zarr_format": 2,
        "shape": [3],
        "chunks": [3],
        "dtype": "|O",
        "compressor": None,
        "fill_value": None,
        "order": "C",
        "filters": [{"id": "pickle", "protocol": 5}],
    }
    folder.mkdir(parents=True)
    (folder / ".zarray").write_text(json.dumps(meta))
    (folder / ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": ["row"]}))
    (folder / "0").write_bytes(pickle.dumps(Canary(f"{folder.parent.parent}/bitten")))


def test_pickled_rows_are_refused_unread(tmp_path: Path) -> None:
    """Rows that are Python objects are refused by their metadata: no pickle is ever loaded."""
    root = zarr.create_group(tmp_path / "in.zarr", zarr_format=2)
    root.create_array("a", data=np.arange(3), attributes={"_ARRAY_DIMENSIONS": ["row"]})
    pickled_array(tmp_path / "in.zarr/objects")
    before = files_below(tmp_path)
    with pytest.raises(RequestError, match=r"'objects'.*O.*fixed"):
        run_shuffle(synchronous(tmp_path / "in.zarr", tmp_path / "out.zarr"))
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("zarr_format", [None, 3])
def test_pickled_arrays_without_rows_are_never_loaded(tmp_path: Path, zarr_format: Any) -> None:
    """An array of Python objects that is not shuffled is copied byte by byte or refused, but never unpickled."""
    root = zarr.create_group(tmp_path / "in.zarr", zarr_format=2)
    root.create_array("a", data=np.arange(3), attributes={"_ARRAY_DIMENSIONS": ["row"]})
    pickled_array(tmp_path / "in.zarr/objects")
    (tmp_path / "in.zarr/objects/.zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": ["thing"]}))
    config = synchronous(tmp_path / "in.zarr", tmp_path / "out.zarr", row_dim="row", zarr_format=zarr_format)
    if zarr_format is None:
        run_shuffle(config)
        assert (tmp_path / "out.zarr/objects/0").read_bytes() == (tmp_path / "in.zarr/objects/0").read_bytes()
    else:
        with pytest.raises(RequestError, match="objects"):
            run_shuffle(config)
    assert not (tmp_path / "bitten").exists()


def wide_source(folder: Path, zarr_format: int = 3) -> Path:
    """Write rows of 1 KiB in chunks of 16 KiB."""
    values = np.random.Generator(np.random.Philox(3)).integers(0, 256, (600, 1024), dtype="u1")
    zarr.create_array(folder / "in.zarr", data=values, chunks=(16, 1024), zarr_format=zarr_format)
    return folder / "in.zarr"


@pytest.mark.parametrize(
    "fields",
    [{}, {"levels": 0}, {"levels": 1}, {"levels": 2}, {"pile_rows": 200}, {"scatter_rows": 300}, {"chunk_rows": 64}],
)
@pytest.mark.parametrize("scale", [24 * 2**20, 1000])
def test_too_little_memory_names_what_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], scale: int
) -> None:
    """The amount in the message, given as it stands there, is enough."""
    monkeypatch.setattr(memory, "FIXED_BYTES", scale)
    request = {"source": wide_source(tmp_path), "target": tmp_path / "out.zarr", **fields}
    with pytest.raises(RequestError, match="too small") as caught:
        run_shuffle(synchronous(**request | {"memory": 2000}))
    (amount,) = re.findall(r"--memory ([0-9]+ ?[A-Za-z]+)", str(caught.value))
    config = synchronous(**request | {"memory": amount})
    run_shuffle(config)
    assert_rows_in_order(config.target, stored_values(config.source), row_order(600, 0))


def test_too_little_disk_names_both_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk without room for target and piles is told with what is needed and what is free."""
    config = synchronous(wide_source(tmp_path), tmp_path / "out.zarr", levels=1, pile_rows=160)
    plan = plan_shuffle(config)
    need = plan.target_bytes + plan.temporary_bytes
    before = files_below(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 0, need - 1))
    with pytest.raises(
        RequestError, match=r"too small.*the target needs about .*iB and the piles about .*iB.* are free"
    ):
        run_shuffle(config)
    assert files_below(tmp_path) == before
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 0, need))
    assert run_shuffle(config).status == "complete"


def test_an_unreachable_scheduler_is_told_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler that nobody listens at is refused when the connection time is over, which is under half a minute."""
    assert cluster.CONNECT_SECONDS <= 25
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 2)
    config = make_config(source=write_group(tmp_path), target=tmp_path / "out.zarr", scheduler="tcp://127.0.0.1:1")
    before, start = files_below(tmp_path), time.perf_counter()
    with pytest.raises(RequestError, match=r"tcp://127.0.0.1:1 cannot be reached"):
        run_shuffle(config)
    assert time.perf_counter() - start < 7
    assert files_below(tmp_path) == before


def test_a_readonly_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target in a directory that cannot be written to is refused (asked of the system: root may write everywhere)."""
    source = write_group(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: (Path(path), mode) != (tmp_path / "closed", os.W_OK))
    (tmp_path / "closed").mkdir()
    with pytest.raises(RequestError, match="closed"):
        run_shuffle(synchronous(source, tmp_path / "closed/deep/out.zarr"))
