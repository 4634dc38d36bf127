"""The certificate: sums of digests before and after, compared; each comparison is a check with a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from html import escape
from operator import add
from typing import Any

from shuffle_tasks.row_hash import Digest


@dataclass(frozen=True, slots=True)
class Check:
    """One named check: whether it holds, and what was seen."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The outcome of a verification.

    Attributes
    ----------
    target : str
        What was verified.
    checks : tuple of Check
        In the order in which they were made.
    """

    target: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every check holds."""
        return all(check.ok for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {"ok": self.ok, "target": self.target, "checks": [asdict(check) for check in self.checks]}

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{'✓' if c.ok else '✗'}</td><td>{escape(c.name)}</td><td>{escape(c.detail)}</td></tr>"
            for c in self.checks
        )
        return f"<table><caption>{escape(self.target)}: {'verified' if self.ok else 'FAILED'}</caption>{rows}</table>"


def sum_digests(records: Iterable[Mapping[str, Any]], name: str, field: str = "digests") -> Digest:
    """Return the sum of one digest over commit records."""
    return reduce(add, (Digest.from_hex(record[field][name]) for record in records), Digest.zero())


def compare(name: str, expected: Digest, found: Digest, meaning: str) -> Check:
    """Return the check that two digests agree."""
    if expected == found:
        return Check(name, True, found.hex())
    return Check(name, False, f"{meaning}: expected {expected.hex()}, found {found.hex()}")


MEANINGS = {
    "content": "rows were changed, lost or repeated",
    "binding": "rows are not bound to the keys of their source rows",
    "order": "rows are not where they were written",
}


def check_ascending(piles: Sequence[Mapping[str, Any]]) -> Check:
    """Return the check that keys ascend from each pile to the next; inside piles the shuffle checked them."""
    for number in range(1, len(piles)):
        if piles[number - 1]["last_key"] > piles[number]["first_key"]:
            return Check(
                "ascending",
                False,
                f"pile {number} starts below the end of pile {number - 1}: rows are in the wrong order",
            )
    return Check("ascending", True, f"keys ascend across {len(piles)} piles")


def check_target_rows(piles: Sequence[Mapping[str, Any]], n: int) -> Check:
    """Return the check that the piles cover the target rows [0, n), each once."""
    at = 0
    for number, record in enumerate(piles):
        start, stop = record["target_rows"]
        if start != at or stop - start != record["rows"]:
            return Check("rows", False, f"pile {number} wrote the target rows [{start}, {stop}), expected from {at}")
        at = stop
    return Check("rows", at == n, f"{at} of {n} rows written")
