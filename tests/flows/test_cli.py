"""The command line, end to end, in real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

from shuffle_tasks import Permutation
from tests.flows.processes import (
    ROWS,
    CommandLine,
    Finished,
    damage,
    is_committed,
    read_attempts,
    read_features,
    wait_for_empty_group,
    wait_for_line,
)

SMALL = ("--pile-rows", "1000", "--scatter-rows", "1000", "--scheduler", "synchronous")
SLOW = ("--codec", "gzip:9", "--memory", "64MiB", "--workers", "2")


def test_run_verify_provenance(cli: CommandLine, pets: Path) -> None:
    """A run gives the defined order; verify and provenance agree with it; a repetition has nothing to do."""
    target = cli.place / "target.zarr"
    ran = cli("run", pets, target, "--direct", "--json", "--seed", 5, *SMALL)
    assert ran.code == 0, ran.err
    assert ran.document["status"] == "complete"
    assert np.array_equal(read_features(target), read_features(pets)[Permutation(ROWS, 5).source_rows(0, ROWS)])

    verified = cli("verify", target, "--source", pets, "--json")
    assert (verified.code, verified.document["ok"]) == (0, True)
    recorded = cli("provenance", target, "--json")
    assert recorded.document["digests"] == ran.document["digests"]
    again = cli("run", pets, target, "--json", "--seed", 5, *SMALL)
    assert (again.code, again.document["status"]) == (0, "already complete"), again.err


def test_run_for_people(cli: CommandLine, pets: Path) -> None:
    """Without --json, standard output has certificate, stages and target, and standard error has the progress."""
    ran = cli("run", pets, "target.zarr", "--direct", "--pile-rows", "1000", "--workers", "1")
    assert ran.code == 0, ran.err
    assert all(
        word in ran.out for word in ("content digest", "scatter", "shuffle", "MB/s", str(cli.place / "target.zarr"))
    )
    assert "Dask dashboard: http://127.0.0.1:" in ran.err
    assert "scatter: " in ran.err


def test_plan(call: Callable[..., Finished], tmp_path: Path, pets: Path) -> None:
    """A plan is the plan's numbers, writes nothing, and reads well."""
    planned = call("plan", pets, "target.zarr", "--json", *SMALL)
    assert (planned.code, planned.document["rows"], planned.document["piles"]) == (0, ROWS, 4)
    shown = call("plan", pets, "target.zarr", *SMALL)
    assert all(word in shown.out for word in ("scatter tasks", "rows a pile", "peak of shuffle", "limited by"))
    assert not (tmp_path / "target.zarr").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "missing.zarr", "t.zarr"], "missing.zarr"),
        (["run", "PETS", "t.zarr", "--seed", "-1"], "seed"),
        (["run", "PETS", "t.zarr", "--memory", "much"], "such as"),
        (["run", "PETS", "PETS"], "same as"),
        (["plan", "PETS", "t.zarr", "--memory", "1kB"], "memory"),
        (["plan", "PETS", "t.zarr", "--levels", "9"], "levels"),
        (["verify", "missing.zarr"], "does not exist"),
        (["provenance", "PETS"], "provenance"),
        (["demo", "."], "not empty"),
        (["run", "PETS"], "TARGET"),
        (["run", "PETS", "t.zarr", "--seed", "one"], "--seed"),
        (["walk"], "walk"),
    ],
)
def test_wrong_request(
    call: Callable[..., Finished], tmp_path: Path, pets: Path, arguments: list[str], words: str
) -> None:
    """A wrong request ends with code 2, one message on standard error, and JSON where it was asked for."""
    (tmp_path / "file").touch()
    given = [str(pets) if word == "PETS" else word for word in arguments]
    refused = call(*given, "--json")
    assert (refused.code, refused.document["exit_code"]) == (2, 2), refused.err
    assert words in refused.document["error"]
    assert "Traceback" not in refused.err


def test_no_command(call: Callable[..., Finished]) -> None:
    """Without arguments the help is shown, and the code says that nothing was done."""
    assert call().code == 2


@pytest.mark.parametrize("direct", [["--direct"], []], ids=["direct", "flow"])
def test_failed_run(served_cli: CommandLine, pets: Path, direct: list[str]) -> None:
    """A run that fails ends with code 1 and the engine's own message; the target stays uncommitted."""
    source = served_cli.place / "source.zarr"
    shutil.copytree(pets, source)
    damage(source)
    failed = served_cli("run", source, "target.zarr", "--json", *SMALL, *direct)
    assert (failed.code, failed.document["status"]) == (1, "error"), failed.err
    assert "features" in failed.document["error"]
    assert "Traceback" not in failed.err
    assert [attempt["status"] for attempt in read_attempts(served_cli.place / "target.zarr")] == ["failed"]


def test_failed_check(call: Callable[..., Finished], tmp_path: Path, pets: Path) -> None:
    """A target that was changed fails its verification with code 1, and the failed check is named."""
    target = tmp_path / "target.zarr"
    assert call("run", pets, target, "--direct", *SMALL).code == 0
    labels = zarr.open_group(target, mode="r+")["label"]
    labels[:2] = 1 - np.asarray(labels[:2])
    failed = call("verify", target)
    assert failed.code == 1
    assert "FAILED" in failed.out
    assert "content" in failed.out


def test_flow_json(served_cli: CommandLine, pets: Path) -> None:
    """A run through the flow prints one JSON document and nothing else, and its record has the ids of the flow run."""
    target = served_cli.place / "target {x}.zarr"
    ran = served_cli("run", pets, target, "--json", "--workers", 1, "--pile-rows", 1000)
    assert (ran.code, ran.document["status"]) == (0, "complete"), ran.err
    assert ran.document["target"] == str(target)
    assert 'flow run "shuffle pets.zarr seed 0 epoch 0": http' in ran.err
    labels = served_cli("provenance", target, "--json").document["labels"]
    assert labels["prefect_flow_run_name"] == "shuffle pets.zarr seed 0 epoch 0"


@pytest.mark.parametrize(
    ("number", "whole_group", "direct"),
    [(signal.SIGINT, True, True), (signal.SIGTERM, False, True), (signal.SIGTERM, False, False)],
    ids=["Ctrl-C direct", "SIGTERM direct", "SIGTERM flow"],
)
def test_interrupted(
    served_cli: CommandLine,
    many_pets: Path,
    number: signal.Signals,
    *,
    whole_group: bool,
    direct: bool,
) -> None:
    """Ctrl-C and SIGTERM end a run with code 130, a cancelled attempt and no target."""
    arguments = ["run", many_pets, "target.zarr", "--json", *SLOW, *(["--direct"] if direct else [])]
    process = served_cli.start(*arguments)
    wait_for_line(process, "plan: ")
    time.sleep(0.3)
    (os.killpg if whole_group else os.kill)(process.pid, number)
    done = served_cli.finish(process, timeout=60)
    assert (done.code, done.document["kind"]) == (130, "Interrupted"), done.err
    target = served_cli.place / "target.zarr"
    assert not is_committed(target)
    assert [attempt["status"] for attempt in read_attempts(target)] == ["cancelled"]


def test_ctrl_c_with_a_temporary_server(cli: CommandLine, many_pets: Path) -> None:
    """The temporary server outlives Ctrl-C, which reaches the whole foreground group: the run ends soon and well."""
    process = cli.start("run", many_pets, "target.zarr", "--json", *SLOW)
    wait_for_line(process, "plan: ")
    os.killpg(process.pid, signal.SIGINT)
    done = cli.finish(process, timeout=60)
    assert (done.code, done.document["exit_code"]) == (130, 130), done.err
    assert not is_committed(cli.place / "target.zarr")
    assert wait_for_empty_group(process.pid) == ""


def test_tracebacks_on_request(call: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch) -> None:
    """PILESHUFFLE_TRACEBACK=1 shows where an error came from."""
    monkeypatch.setenv("PILESHUFFLE_TRACEBACK", "1")
    assert "Traceback" in call("plan", "missing.zarr", "t.zarr").err


def test_demo(cli: CommandLine) -> None:
    """The demo runs by itself, with a temporary server, and shows the labels before and after."""
    shown = cli("demo", "story")
    assert shown.code == 0, shown.err
    assert (cli.place / "story" / "labels.png").read_bytes().startswith(b"\x89PNG")
    assert "before |" in shown.out
    assert "after |" in shown.out
    assert "content digest" in shown.out
    assert "prefect server start" in shown.err
    assert "Dask dashboard: " in shown.err
    verified = cli("verify", "story/shuffled.zarr", "--source", "story/cats-then-dogs.zarr", "--json")
    assert json.loads(verified.out)["ok"]
