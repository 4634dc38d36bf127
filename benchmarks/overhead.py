"""The Prefect flow minus the engine alone, both as commands: `python -m benchmarks.overhead --dir DIR`.

Every run is a fresh process of `python -m flows run`. A Prefect server is started before, on the loopback address with
a database of its own, so that its start is not counted; what is left is the imports, the flow run, and its messages to
the server.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks.compare import add_workload_options, describe_machine, describe_workload, write_json
from benchmarks.contest import delete_target
from benchmarks.tables import show_numbers
from benchmarks.workloads import Workload, make_source, scaled, warm_page_cache

ROOT = Path(__file__).parent.parent
START_SECONDS = 180
QUIET = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}


@contextlib.contextmanager
def prefect_server() -> Iterator[dict[str, str]]:
    """Start a server of its own, and yield the environment of its clients.

    Raises
    ------
    RuntimeError
        If it does not answer in `START_SECONDS`.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home, _free_port() as port:
        environment = {**os.environ, **QUIET, "PREFECT_HOME": home}
        environment.pop("PREFECT_API_URL", None)
        command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        with open(os.path.join(home, "server.log"), "wb") as log:
            server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            try:
                url = f"http://127.0.0.1:{port}/api"
                _wait_until_healthy(server, url)
                yield {**environment, "PREFECT_API_URL": url}
            finally:
                server.terminate()
                server.wait(30)


@contextlib.contextmanager
def _free_port() -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    yield port


def _wait_until_healthy(server: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(f"{url}/health", timeout=5):
            return
        time.sleep(0.2)
    raise RuntimeError(f"the Prefect server did not answer within {START_SECONDS} s")


def time_command(source: str, target: str, extra: Sequence[str], environment: Mapping[str, str]) -> tuple[float, Any]:
    """Run `python -m flows run` in a fresh process, and return its seconds and its JSON report.

    Raises
    ------
    RuntimeError
        If it fails.
    """
    delete_target(target)
    command = [sys.executable, "-m", "flows", "run", source, target, "--json", *extra]
    start = time.perf_counter()
    done = subprocess.run(command, env=dict(environment), cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    delete_target(target)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with {done.returncode}: {done.stderr[-2000:]}")
    return seconds, json.loads(done.stdout)


def measure(workload: Workload, folder: str, repeat: int, extra: Sequence[str]) -> dict[str, Any]:
    """Run the flow and the engine alone, alternating, and return all figures."""
    source, target = make_source(workload, folder), os.path.join(folder, "target-overhead.zarr")
    warm_page_cache(source)
    seconds: dict[str, list[float]] = {"flow": [], "direct": []}
    digests = set()
    with prefect_server() as environment:
        for _ in range(repeat):
            for name, more in (("flow", []), ("direct", ["--direct"])):
                took, report = time_command(source, target, [*extra, *more], environment)
                seconds[name].append(took)
                digests.add(report["digests"]["order"])
    flow, direct = median(seconds["flow"]), median(seconds["direct"])
    figures = {"flow, s": flow, "--direct, s": direct, "flow minus --direct, s": flow - direct}
    return {"seconds": seconds, "same_result": len(digests) == 1, "figures": figures}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_workload_options(parser)
    parser.add_argument("--synchronous", action="store_true", help="run in one thread: no Dask cluster is started")
    options = parser.parse_args(arguments)
    workload = scaled(options.workload, options.scale, options.memory, options.workers)
    extra = ["--memory", str(workload.memory)]
    extra += ["--scheduler", "synchronous"] if options.synchronous else ["--workers", str(workload.workers)]
    extra += ["--levels", str(options.levels)] if options.levels is not None else []
    document = {"benchmark": "overhead", "workload": describe_workload(workload), "machine": describe_machine()}
    document |= measure(workload, options.dir, options.repeat, extra)
    write_json(options.json, document)
    show_numbers(Console(), f"workload {workload.name}, fresh processes", document["figures"])


if __name__ == "__main__":
    main()
