"""The command line's options and what it imports, in real processes."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.options import request_fields
from shuffle_tasks import ShuffleConfig
from tests.flows.processes import Finished, plain_environment

COMMANDS = ("run", "plan", "verify", "provenance", "demo")
FLAGS = [f"--{name.replace('_', '-')}" for name in ShuffleConfig.model_fields if name not in {"source", "target"}]


def test_options_are_the_fields() -> None:
    """The options of a request are the fields of the configuration."""
    assert set(inspect.signature(request_fields).parameters) == set(ShuffleConfig.model_fields)


@pytest.mark.parametrize("command", ["run", "plan"])
def test_help_of_a_request(call: Callable[..., Finished], command: str) -> None:
    """Every option is in the help, with a default for each that takes a value."""
    shown = call(command, "--help")
    assert shown.code == 0
    assert [flag for flag in FLAGS if f" {flag} " not in shown.out] == []
    assert shown.out.count("[default: ") >= len(FLAGS)


def test_help_names_every_command(call: Callable[..., Finished]) -> None:
    """The general help lists the commands and the exit codes."""
    shown = call("--help")
    assert shown.code == 0
    assert all(f" {command} " in shown.out for command in COMMANDS)
    assert "130 interrupted" in shown.out


def test_version(call: Callable[..., Finished]) -> None:
    """--version prints one line."""
    shown = call("--version")
    assert (shown.code, len(shown.out.splitlines())) == (0, 1)


PROBE = """
import sys
from flows.cli import main
try:
    main(sys.argv[2:])
finally:
    print("IMPORTED", sorted(set(sys.argv[1].split(",")) & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("arguments", "banned"),
    [
        (["--help"], "prefect,dask,distributed,zarr,xarray,matplotlib,numpy"),
        (["run", "--help"], "prefect,dask,distributed,zarr,xarray,matplotlib,numpy"),
        (["plan", "PETS", "t.zarr"], "prefect,matplotlib"),
        (["run", "--direct", "--scheduler", "synchronous", "PETS", "t.zarr"], "prefect,matplotlib"),
        (["verify", "t.zarr"], "prefect,matplotlib"),
        (["provenance", "t.zarr"], "prefect,matplotlib"),
    ],
)
def test_imports(arguments: list[str], banned: str, pets: Path, tmp_path: Path) -> None:
    """Prefect is imported only by a run through the flow, and the help imports nothing heavy."""
    given = [str(pets) if word == "PETS" else word for word in arguments]
    done = subprocess.run(
        [sys.executable, "-c", PROBE, banned, *given], cwd=tmp_path, env=plain_environment(tmp_path / "prefect"),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "IMPORTED []" in done.stdout, done.stdout + done.stderr
