"""The cost a GB at several times the data, at the same memory: `python -m benchmarks.linear --workload A --dir DIR`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks.compare import add_workload_options, describe_machine, describe_workload, write_json
from benchmarks.contest import Contest, open_contest, run_once, warm_up
from benchmarks.peers import CONTENDERS
from benchmarks.tables import show_numbers
from benchmarks.workloads import Workload, make_source, scaled, warm_page_cache


def measure(contests: Sequence[Contest], repeat: int) -> list[list[float]]:
    """Return the seconds a GB of every run, by contest; the contests alternate."""
    found: list[list[float]] = [[] for _ in contests]
    for _ in range(repeat):
        for contest, costs in zip(contests, found, strict=True):
            outcome = run_once(contest, CONTENDERS["ours"], check=False)
            costs.append(outcome.seconds / contest.workload.bytes * 1e9)
    return found


def compare_sizes(small: Workload, large: Workload, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of both sizes, on the same workers."""
    with open_contest(small, options.dir, levels=options.levels) as contest:
        source = make_source(large, options.dir)
        warm_page_cache(source)
        warm_up(contest, [CONTENDERS["ours"]])
        costs = measure([contest, replace(contest, workload=large, source=source)], options.repeat)
    one, more = (median(some) for some in costs)
    return {
        "costs": costs,
        "figures": {
            f"s/GB at {small.bytes / 1e9:.2f} GB": one,
            f"s/GB at {large.bytes / 1e9:.2f} GB": more,
            f"cost a GB at {large.bytes / small.bytes:.1f} x the data": more / one,
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_workload_options(parser)
    parser.add_argument("--times", type=float, default=4, help="how much more data (default: 4)")
    options = parser.parse_args(arguments)
    small = scaled(options.workload, options.scale, options.memory, options.workers)
    large = scaled(options.workload, options.scale * options.times, options.memory, options.workers)
    document = {"benchmark": "linear", "workload": describe_workload(large), "machine": describe_machine()}
    document |= compare_sizes(small, large, options)
    write_json(options.json, document)
    show_numbers(Console(), f"workload {small.name}, {small.memory / 2**20:.0f} MiB", document["figures"])


if __name__ == "__main__":
    main()
