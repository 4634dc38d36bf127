"""What the README tells a newcomer is what CI runs, and its example works."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    """Return the fenced code blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_ci_runs_the_commands_of_the_readme():
    """Each command of the two first blocks stands in `.ci/run`, apart from options that make it quiet."""
    script = re.sub(r" --(clear|quiet|disable-pip-version-check)", "", (ROOT / ".ci/run").read_text())
    commands = [part.strip() for block in blocks("bash")[:2] for part in block.split("&&")]
    assert len(commands) == 5
    assert [command for command in commands if command not in script] == []


@pytest.mark.parametrize(
    "path", re.findall(r"`((?:\.github|flows|infra|shuffle_tasks|benchmarks|tests)/[^`]*)`", README)
)
def test_paths_of_the_readme_exist(path):
    """Every path that the README names is there."""
    assert (ROOT / path).exists()


def test_python_example_runs(tmp_path):
    """The example from Python runs as a script."""
    labels = xr.Dataset({"label": ("row", np.arange(5000) // 2500)}).chunk(row=500)
    labels.to_zarr(tmp_path / "data.zarr", zarr_format=2)
    (tmp_path / "example.py").write_text(blocks("python")[0].replace('"8GiB"', '"1GiB"'))
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "1"
