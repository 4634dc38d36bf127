"""The report of a run: what a caller gets back, as an object, JSON or HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from shuffle_tasks.planning.sizes import format_bytes


@dataclass(frozen=True, slots=True)
class ShuffleReport:
    """The outcome of a run.

    Attributes
    ----------
    status : str
        "complete", or "already complete" if an identical request had finished before.
    run_id : str
        The attempt that wrote the target.
    target : str
        Where it is.
    n, seed, epoch : int
        Rows, and the order.
    digests : mapping
        "content", "binding" and "order", 32 hex digits each.
    stages : mapping
        Stage → seconds, stored bytes read and written, and more.
    plan : mapping
        The numbers of the plan.
    piles : str or None
        Where the piles were kept.
    """

    status: str
    run_id: str
    target: str
    n: int
    seed: int
    epoch: int
    digests: Mapping[str, str]
    stages: Mapping[str, Mapping[str, Any]]
    plan: Mapping[str, Any]
    piles: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "status": self.status,
            "run_id": self.run_id,
            "target": self.target,
            "n": self.n,
            "seed": self.seed,
            "epoch": self.epoch,
            "digests": dict(self.digests),
            "stages": {name: dict(stats) for name, stats in self.stages.items()},
            "plan": dict(self.plan),
            "piles": self.piles,
        }

    def _repr_html_(self) -> str:
        facts = {
            "target": self.target,
            "rows": f"{self.n:,}",
            "seed, epoch": f"{self.seed}, {self.epoch}",
            "run": self.run_id,
        }
        facts |= {f"{name} digest": digest for name, digest in self.digests.items()}
        head = "".join(f"<tr><th>{escape(k)}</th><td>{escape(str(v))}</td></tr>" for k, v in facts.items())
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{s['seconds']:.2f} s</td><td>{format_bytes(s['bytes_read'])}</td>"
            f"<td>{format_bytes(s['bytes_written'])}</td></tr>"
            for name, s in self.stages.items()
        )
        table = f"<table><tr><th>stage</th><th>time</th><th>read</th><th>written</th></tr>{rows}</table>"
        return f"<table><caption>pileshuffle: {escape(self.status)}</caption>{head}</table>{table}"


def report_from_record(record: Mapping[str, Any], status: str | None = None) -> ShuffleReport:
    """Return the report that a provenance record of a complete run tells."""
    return ShuffleReport(
        status=status or record["status"],
        run_id=record["run_id"],
        target=record["target"],
        n=record["n"],
        seed=record["seed"],
        epoch=record["epoch"],
        digests=record["digests"],
        stages=record["stages"],
        plan=record["plan"],
        piles=record.get("piles"),
    )
