"""Plans, reports, checks and records for people, as rich renderables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from shuffle_tasks.planning.sizes import format_bytes

SIZES = ("bytes", "row_bytes", "stored_bytes", "budget", "segment_bytes", "bytes_to_read", "bytes_to_write")

PLAN_LINES = (
    ("rows", "rows"),
    ("bytes", "decoded bytes"),
    ("row_bytes", "bytes a row"),
    ("stored_bytes", "stored bytes of the source"),
    ("slots", "workers"),
    ("budget", "memory a worker"),
    ("levels", "scatter levels"),
    ("tasks", "tasks"),
    ("scatter_tasks", "scatter tasks"),
    ("scatter_rows", "rows a scatter task"),
    ("piles", "piles"),
    ("pile_rows", "rows a pile"),
    ("segments", "segments"),
    ("segment_bytes", "mean segment"),
    ("consolidation", "consolidation"),
    ("temporary_bytes", "temporary disk"),
    ("target_bytes", "target, about"),
    ("bytes_to_read", "to read, about"),
    ("bytes_to_write", "to write, about"),
)


def show_plan(console: Console, plan: Mapping[str, Any]) -> None:
    """Print the numbers of a plan, the peak of each stage, and what limits it."""
    table = _facts()
    for name, label in PLAN_LINES:
        value = plan[name]
        table.add_row(label, _size(value) if name.endswith("bytes") or name in SIZES else _number(value))
    for stage, peak in plan["peaks"].items():
        table.add_row(f"peak of {stage}, a worker", _size(peak))
    table.add_row("limited by", str(plan["limits"]))
    console.print(table)
    for note in plan["notes"]:
        console.print(f"note: {note}", highlight=False, markup=False)


def show_report(console: Console, report: Mapping[str, Any]) -> None:
    """Print the certificate, the table of stages, and where the target is."""
    table = _facts("Certificate")
    table.add_row("status", str(report["status"]))
    table.add_row("rows", _number(report["n"]))
    table.add_row("seed, epoch", f"{report['seed']}, {report['epoch']}")
    for name, value in report["digests"].items():
        table.add_row(f"{name} digest", str(value))
    table.add_row("run", str(report["run_id"]))
    console.print(table)
    if report["stages"]:
        console.print(_stage_table(report["stages"]))
    console.print(f"target: {report['target']}", highlight=False, markup=False, soft_wrap=True)


def show_checks(console: Console, report: Mapping[str, Any]) -> None:
    """Print the checks of a verification, failed ones in red."""
    for check in report["checks"]:
        line = Text("ok    " if check["ok"] else "FAILED", style="green" if check["ok"] else "bold red")
        console.print(
            line.append(f"  {check['name']}", style="bold").append(f"  {check['detail']}", style="default"),
            soft_wrap=True,
        )
    verdict = Text("verified", style="green") if report["ok"] else Text("verification failed", style="bold red")
    console.print(verdict)


def show_record(console: Console, record: Mapping[str, Any]) -> None:
    """Print a provenance record as a tree."""
    tree = Tree(Text(f"run {record.get('run_id', '')}"), hide_root=False)
    _grow(tree, record)
    console.print(tree)


def _grow(tree: Tree, value: Mapping[Any, Any]) -> None:
    for name, found in value.items():
        rows = isinstance(found, list) and found and isinstance(found[0], Mapping)
        inner = dict(enumerate(found)) if rows else found
        if isinstance(inner, Mapping) and inner:
            _grow(tree.add(Text(str(name), style="bold")), inner)
        else:
            tree.add(Text(f"{name}: ", style="bold").append(_brief(inner), style="default"))


def _brief(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 8:
        return ", ".join(map(str, value[:6])) + f", … ({len(value)} in all)"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _stage_table(stages: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table("stage", title="Stages", title_justify="left")
    for name in ("tasks", "seconds", "read", "written", "MB/s"):
        table.add_column(name, justify="right")
    for name, stats in stages.items():
        moved = stats["bytes_read"] + stats["bytes_written"]
        rate = f"{moved / stats['seconds'] / 1e6:.0f}" if moved and stats["seconds"] else ""
        table.add_row(
            name, _number(stats.get("tasks") or ""), f"{stats['seconds']:.2f}", format_bytes(stats["bytes_read"]),
            format_bytes(stats["bytes_written"]), rate,
        )  # fmt: skip
    return table


def _facts(title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, box=None)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    return table


def _size(count: int) -> str:
    return f"{format_bytes(count)} ({count:,} B)" if count >= 1024 else f"{count} B"


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
