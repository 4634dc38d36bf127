"""Compare the shuffle with its peers in one run: `python -m benchmarks.compare --workload A --dir DIR --json out.json`.

Contenders alternate: every round runs each of them once, starting with another one, and medians are compared. All
processes run, and have done the work once on a little data, before the clock starts. The source is in the page cache
for all alike; the disk is synced before each run, and nothing is dropped from the page cache; targets are deleted
between runs. All that is outside the timing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks.contest import Contender, Contest, Outcome, open_contest, run_once, warm_up
from benchmarks.peers import CONTENDERS, missing
from benchmarks.tables import markdown_table, show_comparison
from benchmarks.workloads import WORKLOADS, Workload, scaled
from shuffle_tasks.planning.sizes import parse_bytes

RATIOS = {
    "ours / copy": ("ours", "copy"),
    "ours with cluster / copy": ("ours with cluster", "copy"),
    "dask copy / ours": ("dask copy", "ours"),
    "tuned dask copy / ours": ("tuned dask copy", "ours"),
    "dask permutation / ours": ("dask permutation", "ours"),
    "row reads / ours": ("row reads", "ours"),
    "row reads, one process / ours": ("row reads, one process", "ours"),
    "zarrs copy / copy": ("zarrs copy", "copy"),
    "tensorstore copy / copy": ("tensorstore copy", "copy"),
}
"""Above 1, the first takes longer."""

PACKAGES = ("dask", "distributed", "numcodecs", "numpy", "pileshuffle", "zarr", "zarrs", "tensorstore")


def compare(contest: Contest, names: Sequence[str], repeat: int, *, check: bool = False) -> dict[str, Any]:
    """Run the named contenders `repeat` times, alternating, and return everything that was measured."""
    skipped = {name: reason for name in names if (reason := missing(CONTENDERS[name]))}
    ready = [CONTENDERS[name] for name in names if name not in skipped]
    outcomes: dict[str, list[Outcome]] = {contender.name: [] for contender in ready}
    warm_up(contest, ready)
    for turn in range(repeat):
        for contender in _rotated(ready, turn):
            outcomes[contender.name].append(run_once(contest, contender, check=check))
    return {"contenders": {name: _summary(CONTENDERS[name], found) for name, found in outcomes.items()},
            "skipped": skipped, "ratios": _ratios(outcomes), "ours": _our_run(outcomes.get("ours", []))}  # fmt: skip


def _rotated(contenders: list[Contender], turn: int) -> list[Contender]:
    first = turn % max(1, len(contenders))
    return contenders[first:] + contenders[:first]


def _summary(contender: Contender, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "text": contender.text,
        "median_seconds": median(outcome.seconds for outcome in outcomes),
        "seconds": [outcome.seconds for outcome in outcomes],
        "measured_seconds": [outcome.measured for outcome in outcomes],
        "notes": sorted({outcome.note for outcome in outcomes if outcome.note}),
    }


def _ratios(outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, float]:
    seconds = {name: median(outcome.seconds for outcome in found) for name, found in outcomes.items()}
    return {
        name: seconds[one] / seconds[other]
        for name, (one, other) in RATIOS.items()
        if one in seconds and other in seconds
    }


def _our_run(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return stages and plan of our run of median time, and the share of the digests in its time."""
    if not outcomes:
        return {}
    report = sorted(outcomes, key=lambda outcome: outcome.seconds)[len(outcomes) // 2].report
    names = (
        "scatter_tasks",
        "piles",
        "levels",
        "pile_rows",
        "scatter_rows",
        "segment_bytes",
        "consolidation",
        "limits",
    )
    return {
        "stages": dict(report["stages"]),
        "plan": {name: report["plan"][name] for name in names if name in report["plan"]},
        "digest_share": digest_share(report["stages"], report["plan"]["slots"]),
    }


def digest_share(stages: Mapping[str, Mapping[str, Any]], workers: int) -> float:
    """Return the digests' share of the run's time, which all workers have."""
    seconds = workers * sum(stage["seconds"] for stage in stages.values())
    return sum(stage["digest_seconds"] for stage in stages.values()) / seconds if seconds else 0.0


def describe_machine() -> dict[str, Any]:
    """Return what the figures depend on: processor, cores, packages, and how busy the machine was."""
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def describe_workload(workload: Workload) -> dict[str, Any]:
    """Return the size of a workload."""
    return {
        "name": workload.name, "text": workload.text, "rows": workload.rows, "bytes": workload.bytes,
        "memory": workload.memory, "workers": workload.workers,
    }  # fmt: skip


def write_json(path: str | None, document: Mapping[str, Any]) -> None:
    """Write a JSON document, if a path is given."""
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2)


def add_workload_options(parser: argparse.ArgumentParser, *, folder_needed: bool = True) -> None:
    """Add the options that all benchmarks have."""
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="A", help="what is shuffled (default: A)")
    parser.add_argument("--scale", type=float, default=1.0, help="times the workload's rows (default: 1)")
    parser.add_argument("--memory", type=parse_bytes, help="of all workers together (default: the workload's)")
    parser.add_argument("--workers", type=int, help="worker processes (default: the workload's)")
    parser.add_argument("--levels", type=int, help="scatter levels (default: planned)")
    parser.add_argument("--repeat", type=int, default=3, help="rounds (default: 3)")
    text = "directory for sources, which are kept, and targets, which are not"
    parser.add_argument("--dir", required=folder_needed, help=text)
    parser.add_argument("--json", help="write all figures to this file")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_workload_options(parser, folder_needed=False)
    parser.add_argument(
        "--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), help="contenders (default: all)"
    )
    parser.add_argument("--part", type=float, default=1 / 8, help="share of the rows for slow peers (default: 0.125)")
    parser.add_argument("--limit", type=float, default=300, help="seconds after which a slow peer is stopped (300)")
    parser.add_argument("--sample", type=int, default=200, help="rows read one by one (default: 200)")
    parser.add_argument("--check", action="store_true", help="compare every target in memory; for small scales")
    parser.add_argument("--table", nargs="+", metavar="FILE", help="print a Markdown table of such JSON files instead")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.table:
        documents = []
        for path in options.table:
            with open(path, encoding="utf-8") as file:
                documents.append(json.load(file))
        print(markdown_table(documents))
        return
    if not options.dir:
        parser.error("--dir is needed: the directory for sources and targets")
    workload = scaled(options.workload, options.scale, options.memory, options.workers)
    document = {"benchmark": "compare", "workload": describe_workload(workload), "machine": describe_machine()}
    settings = {"levels": options.levels, "part": options.part, "limit": options.limit, "sample": options.sample}
    with open_contest(workload, options.dir, **settings) as contest:
        document |= compare(contest, options.only, options.repeat, check=options.check)
    write_json(options.json, document)
    show_comparison(Console(), document)


if __name__ == "__main__":
    main()
