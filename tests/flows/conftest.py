"""Fixtures for the flow and the command line: one Prefect server for the session, small datasets, real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows.cli import main
from flows.demo import write_pets
from flows.server import set_prefect_defaults
from tests.flows.processes import ROWS_PER_CLASS, CommandLine, Finished, plain_environment

set_prefect_defaults()  # before any test module imports prefect


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Start a Prefect server for the session and yield the address of its API."""
    from prefect.settings import PREFECT_API_URL
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield str(PREFECT_API_URL.value())


@pytest.fixture(scope="session")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a dataset of cats followed by dogs; not to be changed."""
    path = tmp_path_factory.mktemp("pets") / "pets.zarr"
    write_pets(path, ROWS_PER_CLASS)
    return path


@pytest.fixture(scope="session")
def many_pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a dataset whose shuffle with a slow codec takes seconds; not to be changed."""
    path = tmp_path_factory.mktemp("many_pets") / "pets.zarr"
    write_pets(path, 150_000)
    return path


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    """Return the command line without a configured Prefect server."""
    return CommandLine(tmp_path, plain_environment(tmp_path / "prefect"))


@pytest.fixture
def served_cli(tmp_path: Path, server: str) -> CommandLine:
    """Return the command line with the session's Prefect server."""
    return CommandLine(tmp_path, plain_environment(tmp_path / "prefect") | {"PREFECT_API_URL": server})


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    """Return a function that runs a command in this process: for what needs neither signals nor imports."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "150")

    def run(*arguments: object) -> Finished:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Finished(int(str(ended.value.code)), out, err)

    return run
