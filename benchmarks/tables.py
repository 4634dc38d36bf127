"""The figures as tables: on a terminal, and in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

GIGABYTE = 1e9


def show_comparison(console: Console, document: Mapping[str, Any]) -> None:
    """Print what `benchmarks.compare` measured."""
    workload = document["workload"]
    size = f"{workload['rows']:,} rows, {workload['bytes'] / GIGABYTE:.2f} GB"
    title = f"workload {workload['name']}: {workload['text']}, {size}"
    table = Table("contender", "median", "s/GB", "runs", "remark", title=title)
    for name, figures in document["contenders"].items():
        seconds = figures["median_seconds"]
        runs = " ".join(f"{value:.1f}" for value in figures["seconds"])
        remark = "; ".join([figures["text"], *figures["notes"]])
        table.add_row(name, f"{seconds:,.2f} s", f"{seconds / workload['bytes'] * GIGABYTE:,.2f}", runs, escape(remark))
    for name, reason in document["skipped"].items():
        table.add_row(name, "skipped", "", "", reason)
    console.print(table)
    show_numbers(console, "ratios", document["ratios"])
    if document["ours"]:
        console.print(f"digests: {document['ours']['digest_share']:.1%} of the workers' time in the run")


def show_numbers(console: Console, title: str, numbers: Mapping[str, float]) -> None:
    """Print names and numbers."""
    table = Table("", title, show_header=True)
    for name, value in numbers.items():
        table.add_row(name, f"{value:,.3g}")
    console.print(table)


def markdown_table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures of several JSON documents, of any of the benchmarks, as Markdown."""
    parts = [_comparisons([d for d in documents if d["benchmark"] == "compare"])]
    parts += [_figures(document) for document in documents if document["benchmark"] != "compare"]
    return "\n\n".join(part for part in parts if part)


def _comparisons(documents: Sequence[Mapping[str, Any]]) -> str:
    if not documents:
        return ""
    names = list(dict.fromkeys(name for d in documents for name in d["contenders"]))
    ratios = list(dict.fromkeys(name for d in documents for name in d["ratios"]))
    head = ["", *(f"{d['workload']['name']}, {d['workload']['bytes'] / GIGABYTE:.2f} GB" for d in documents)]
    lines = [head, ["---"] + ["---:"] * len(documents)]
    lines += [[name, *(_seconds(d["contenders"].get(name)) for d in documents)] for name in names]
    lines += [[name, *(_number(d["ratios"].get(name)) for d in documents)] for name in ratios]
    lines += [["digests, share of run time", *(_share(d["ours"].get("digest_share")) for d in documents)]]
    machine = documents[0]["machine"]
    packages = ", ".join(f"{name} {found}" for name, found in machine["packages"].items())
    note = f"{machine['cores']} cores, Python {machine['python']}, {packages}. A star marks an extrapolation."
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{note}"


def _seconds(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return ""
    return f"{figures['median_seconds']:,.1f} s" + ("*" if figures["notes"] else "")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _figures(document: Mapping[str, Any]) -> str:
    """Return the `figures` of a document, a flat mapping, as a table."""
    workload = document["workload"]
    lines = [[f"{document['benchmark']}, {workload['name']}, {workload['rows']:,} rows", "figure"], ["---", "---:"]]
    lines += [
        [name, _number(value) if value >= 0.01 else f"{value:.2g}"] for name, value in document["figures"].items()
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
