"""Every benchmark runs at a tiny scale, as the command that its README gives, and is right. Times are not judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT))  # the benchmarks are not installed

from benchmarks.compare import RATIOS, digest_share  # noqa: E402
from benchmarks.peers import CONTENDERS  # noqa: E402
from benchmarks.tables import markdown_table  # noqa: E402
from benchmarks.workloads import WORKLOADS, make_chunk, make_source, scaled  # noqa: E402

PEERS = {name for name, contender in CONTENDERS.items() if contender.needs is None}


def run_benchmark(module: str, folder: Path, *options: str) -> dict[str, Any]:
    """Run one benchmark on one level of piles, with warnings as errors, and return its JSON."""
    path = folder / f"{module}.json"
    command = [sys.executable, "-W", "error", "-m", f"benchmarks.{module}", "--dir", str(folder), "--json", str(path)]
    done = subprocess.run([*command, "--levels", "1", *options], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    assert document["benchmark"] == module
    assert document["machine"]["packages"]["zarr"]
    return document


def test_compare_runs_all_contenders(tmp_path: Path) -> None:
    """Contenders alternate, their targets are right, nothing is left behind, and every ratio is there."""
    found = run_benchmark("compare", tmp_path, "--scale", "0.003", "--repeat", "2", "--sample", "4", "--check")
    assert found["contenders"].keys() >= PEERS
    assert found["contenders"].keys() | found["skipped"].keys() == CONTENDERS.keys()
    assert all(len(figures["seconds"]) == 2 for figures in found["contenders"].values())
    assert {name for name, pair in RATIOS.items() if set(pair) <= PEERS} <= found["ratios"].keys()
    assert all(ratio > 0 for ratio in found["ratios"].values())
    assert all("not installed" in reason for reason in found["skipped"].values())
    assert 0 < found["ours"]["digest_share"] < 1
    assert found["ours"]["plan"]["levels"] == 1
    assert found["contenders"]["row reads"]["notes"] == ["extrapolated linearly from 4 rows"]
    assert list(tmp_path.glob("target*")) == []
    assert "| ours / copy |" in markdown_table([found])


def test_compare_takes_groups_and_some_contenders(tmp_path: Path) -> None:
    """Images and their labels are compared too, and contenders can be chosen."""
    names = ["ours", "copy", "dask permutation"]
    options = ("--workload", "D", "--scale", "0.008", "--repeat", "1", "--check", "--only", *names)
    found = run_benchmark("compare", tmp_path, *options)
    assert list(found["contenders"]) == names
    assert found["contenders"]["dask permutation"]["notes"] == ["extrapolated linearly from 4,096 rows"]
    assert found["ratios"].keys() == {"ours / copy", "dask permutation / ours"}


def test_roofline_has_every_step(tmp_path: Path) -> None:
    """Every step of the shuffle has a cost, and every stage a share."""
    found = run_benchmark("roofline", tmp_path, "--scale", "0.008", "--repeat", "1")
    figures = found["figures"]
    assert all(value > 0 for value in figures.values())
    steps = [value for name, value in figures.items() if name.endswith("s/GB") and not name.startswith("roofline")]
    assert len(steps) == 11
    assert figures["roofline, s/GB"] == pytest.approx(sum(steps))
    assert {f"roofline's share of {stage} tasks" for stage in ("scatter", "shuffle", "both")} <= figures.keys()
    assert "roofline, A" in markdown_table([found])


def test_linear_compares_costs(tmp_path: Path) -> None:
    """The cost a GB is there at both sizes, with their ratio."""
    found = run_benchmark("linear", tmp_path, "--workload", "C", "--scale", "0.004", "--repeat", "1")
    one, more, ratio = found["figures"].values()
    assert ratio == pytest.approx(more / one)
    assert [len(costs) for costs in found["costs"]] == [1, 1]


@pytest.mark.timeout(600)
def test_overhead_subtracts_the_engine(tmp_path: Path) -> None:
    """The flow and the engine alone give the same result, and their difference is reported."""
    found = run_benchmark("overhead", tmp_path, "--scale", "0.002", "--repeat", "1", "--synchronous")
    flow, direct, difference = found["figures"].values()
    assert found["same_result"]
    assert difference == pytest.approx(flow - direct)


@pytest.mark.parametrize("name", WORKLOADS)
def test_data_is_the_same_every_time(name: str) -> None:
    """A chunk is a function of its number, and chunks differ."""
    one, again, other = (make_chunk(WORKLOADS[name], 0, chunk) for chunk in (0, 0, 1))
    variable = WORKLOADS[name].variables[0]
    assert one.dtype == variable.dtype
    assert one.shape == (variable.chunk_rows, *variable.row_shape)
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_rows_of_b_compress_five_to_six_times() -> None:
    """Workload B is as compressible as its description says."""
    rows = make_chunk(WORKLOADS["B"], 0, 0)[:256]
    assert 5 <= rows.nbytes / len(numcodecs.Blosc(cname="zstd", clevel=1, shuffle=1).encode(rows)) <= 6


def test_sources_are_kept(tmp_path: Path) -> None:
    """A source is made once for its size, and scales are rows."""
    workload = scaled("C", 2**-20, memory=2**27, workers=1)
    assert (workload.rows, workload.memory, workload.workers) == (64, 2**27, 1)
    path = Path(make_source(workload, str(tmp_path)))
    before = path.stat().st_mtime_ns
    assert make_source(workload, str(tmp_path)) == str(path)
    assert path.stat().st_mtime_ns == before


def test_digest_share_is_of_the_run() -> None:
    """The share is digest seconds over the workers' seconds in all stages, and 0 where there was none."""
    stages = {
        "scatter": {"seconds": 3.0, "digest_seconds": 1.0},
        "shuffle": {"seconds": 2.0, "digest_seconds": 0.5},
    }
    assert digest_share(stages, 2) == pytest.approx(0.15)
    assert digest_share({}, 2) == 0.0
