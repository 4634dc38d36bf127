"""The stored plan of a run, `plan.json`: all that a task needs, and the small value that points a task to it."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shuffle_tasks.errors import StorageError
from shuffle_tasks.planning.plan import Plan, plan_from_dict
from shuffle_tasks.randomness import KeyStream, Splitters
from shuffle_tasks.storage.objects import LocalObjects

SPEC_VERSION = 1
PLAN_NAME = "plan.json"


@dataclass(frozen=True, eq=False)
class RunSpec:
    """One run, as stored.

    Attributes
    ----------
    request : mapping
        What was asked for, in the terms that make two requests the same or different.
    request_digest : str
        SHA-256 of `request`, shortened.
    plan : Plan
        The numbers; `levels` have the exact rows of the largest segment.
    source_url, target_root : str
        Directories to read from and to write to (the target's own, or the one that is swapped in at the commit).
    target_url : str
        Where the target will be.
    source_nodes, target_nodes : mapping
        Metadata documents by path.
    copies : tuple of str
        Paths of the arrays that are copied.
    splitters : Splitters
        Borders between the piles of the last level.
    work : str
        Directory of this run's piles and records.
    """

    request: Mapping[str, Any]
    request_digest: str
    plan: Plan
    source_url: str
    target_root: str
    target_url: str
    source_nodes: Mapping[str, Mapping[str, Any]]
    target_nodes: Mapping[str, Mapping[str, Any]]
    copies: tuple[str, ...]
    splitters: Splitters
    work: str
    plan_id: str = field(default="", compare=False)

    @property
    def stream(self) -> KeyStream:
        """The keys of the order."""
        return KeyStream(self.plan.seed, self.plan.epoch, bits=self.plan.key_bits)

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the shuffled arrays, in the order of the row hash."""
        return tuple(v.path for v in self.plan.variables)

    @property
    def key_name(self) -> str:
        """Name of the pile array that holds the keys; another one if a variable is called so."""
        name = "key"
        while any(path.split("/")[0] == name for path in self.paths):
            name = f"_{name}"
        return name

    def level_splitters(self, depth: int) -> Splitters:
        """Return the borders between the piles of a level: every G-th of the last level's."""
        step = self.plan.levels[depth].pile_rows // self.plan.pile_rows
        return Splitters(self.splitters.keys[step - 1 :: step], self.splitters.rows[step - 1 :: step])

    def objects(self) -> LocalObjects:
        """Return the store of this run's records."""
        return LocalObjects(self.work)

    def to_json(self) -> bytes:
        """Return the stored form."""
        value = {
            "version": SPEC_VERSION,
            "request": dict(self.request),
            "request_digest": self.request_digest,
            "plan": self.plan.to_dict(),
            "source": {"url": self.source_url, "nodes": self.source_nodes, "copies": self.copies},
            "target": {"url": self.target_url, "root": self.target_root, "nodes": self.target_nodes},
            "splitters": {
                "keys": [f"{key:016x}" for key in self.splitters.keys.tolist()],
                "rows": self.splitters.rows.tolist(),
            },
        }
        return json.dumps(value).encode()


def spec_from_json(data: bytes, work: str) -> RunSpec:
    """Return the run that `RunSpec.to_json` stored in the directory `work`."""
    try:
        value = json.loads(data)
        version = value["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f"the plan {work}/{PLAN_NAME} is damaged: {error}") from error
    if version != SPEC_VERSION:
        raise StorageError(
            f"the plan {work}/{PLAN_NAME} has version {version}, this program reads {SPEC_VERSION}: start anew"
        )
    keys = np.array([int(key, 16) for key in value["splitters"]["keys"]], np.uint64)
    return RunSpec(
        request=value["request"],
        request_digest=value["request_digest"],
        plan=plan_from_dict(value["plan"]),
        source_url=value["source"]["url"],
        source_nodes=value["source"]["nodes"],
        copies=tuple(value["source"]["copies"]),
        target_url=value["target"]["url"],
        target_root=value["target"]["root"],
        target_nodes=value["target"]["nodes"],
        splitters=Splitters(keys, np.array(value["splitters"]["rows"], np.int64)),
        work=work,
        plan_id=hashlib.sha256(data).hexdigest(),
    )


@dataclass(frozen=True, slots=True)
class TaskRef:
    """One task: which run, which stage, which number. Small, picklable, and all that travels to a worker.

    Attributes
    ----------
    work : str
        Directory of the run.
    plan_id : str
        SHA-256 of its plan: a worker refuses another plan than the one it was sent for.
    stage : str
        Name in the commit records, such as "scatter".
    index : int
        Number of the task in its stage.
    depth : int
        Scatter level, from 0.
    run_id : str
        The attempt that sent the task.
    """

    work: str
    plan_id: str
    stage: str
    index: int
    depth: int = 0
    run_id: str = ""

    def spec(self) -> RunSpec:
        """Return the run, read once a process."""
        return load_spec(self.work, self.plan_id)


@functools.lru_cache(maxsize=4)
def load_spec(work: str, plan_id: str) -> RunSpec:
    """Return the run stored in `work`.

    Raises
    ------
    StorageError
        If its plan is missing, damaged, or another than `plan_id`.
    """
    data = LocalObjects(work).get(PLAN_NAME)
    if data is None:
        raise StorageError(f"the plan {work}/{PLAN_NAME} is missing")
    spec = spec_from_json(data, work)
    if spec.plan_id != plan_id:
        raise StorageError(
            f"the plan {work}/{PLAN_NAME} is not the one that this task belongs to (damaged, or a newer run's)"
        )
    return spec
