"""The wheel is built, installed in an empty environment, and run by its command."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without this environment's Python settings and return its standard output."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV_"))}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from the working tree."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (found,) = folder.glob("pileshuffle-*.whl")
    return found


def test_wheel_holds_the_two_packages_only(wheel):
    """The wheel has `flows` and `shuffle_tasks`, their data files, and nothing else."""
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"flows", "shuffle_tasks"}
    assert {"shuffle_tasks/py.typed", "shuffle_tasks/ARCHITECTURE.md", "flows/cli.py"} <= set(names)


@pytest.mark.timeout(600)
def test_installed_wheel_runs(wheel, tmp_path):
    """In an empty environment the installed command shuffles and verifies a small array."""
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    run(tmp_path / "venv/bin/python", "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    rows = np.arange(1000)
    zarr.create_array(tmp_path / "in.zarr", shape=(1000,), chunks=(100,), dtype="i8")[:] = rows
    command = tmp_path / "venv/bin/pileshuffle"
    out = run(command, "run", "in.zarr", "out.zarr", "--direct", "--memory", "512MiB", "--json", cwd=tmp_path)
    assert json.loads(out)["status"] == "complete"
    assert json.loads(run(command, "verify", "out.zarr", "--source", "in.zarr", "--json", cwd=tmp_path))["ok"]
    shuffled = zarr.open_array(tmp_path / "out.zarr", mode="r")[:]
    assert not np.array_equal(shuffled, rows)
    assert np.array_equal(np.sort(shuffled), rows)
