"""From a request to a plan: look at source, target, disk and workers, and refuse what cannot work.

Nothing is read but metadata, and nothing is written.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffle_tasks.errors import RequestError
from shuffle_tasks.graph.cluster import Resources
from shuffle_tasks.planning.codec_choice import parse_codec
from shuffle_tasks.planning.config import ShuffleConfig
from shuffle_tasks.planning.facts import ArrayFacts, SourceFacts
from shuffle_tasks.planning.levels import Sizes
from shuffle_tasks.planning.memory import MAX_CHUNK_BYTES
from shuffle_tasks.planning.plan import PILE_EXPANSION, Plan, build_plan
from shuffle_tasks.planning.sizes import format_bytes
from shuffle_tasks.planning.units import fitting_rows
from shuffle_tasks.storage.chunks import array_from_documents
from shuffle_tasks.storage.layout import Nodes, TargetOptions, target_nodes, with_chunk_rows
from shuffle_tasks.storage.objects import LocalObjects
from shuffle_tasks.storage.sources import array_facts, open_source
from shuffle_tasks.storage.target import target_state

ORDER_SCHEME = "philox4x64-10 keys, rows ascending by (key, source row)"
ORDER_VERSION = 1


@dataclass(frozen=True, slots=True)
class Request:
    """A request whose source is known.

    Attributes
    ----------
    config : ShuffleConfig
        As given.
    source : SourceFacts
        Facts of the source.
    target, work_root : str
        Absolute paths of the target and of the directory for runs.
    terms : mapping
        What makes two requests the same: sources' metadata, order and output options, but not memory or workers.
    digest : str
        SHA-256 of the terms, shortened.
    """

    config: ShuffleConfig
    source: SourceFacts
    target: str
    work_root: str
    terms: Mapping[str, Any]
    digest: str

    @property
    def work(self) -> str:
        """Directory of this run's piles and records."""
        return f"{self.work_root}/{self.digest}"

    @property
    def options(self) -> TargetOptions:
        """How the target differs from the source."""
        codec = parse_codec(self.config.codec) if self.config.codec else None
        return TargetOptions(self.config.zarr_format, self.config.chunk_rows, self.config.shard_rows, codec)


def open_request(config: ShuffleConfig) -> Request:
    """Return the request of a configuration.

    Raises
    ------
    RequestError
        If the source cannot be shuffled, or the paths lie inside one another.
    """
    source = open_source(config.source, config.row_dim)
    target = os.path.abspath(config.target)
    work_root = os.path.abspath(config.work_dir) if config.work_dir else f"{target}.work"
    _check_paths(source.url, target, work_root)
    terms = {
        "source": source.url,
        "source_metadata": metadata_digest(source.nodes),
        "target": target,
        "row_dim": source.row_dim,
        **{
            name: getattr(config, name)
            for name in ("seed", "epoch", "chunk_rows", "shard_rows", "codec", "zarr_format")
        },
        "order": f"{ORDER_SCHEME}, version {ORDER_VERSION}",
    }
    return Request(config, source, target, work_root, terms, _digest(terms)[:16])


def metadata_digest(nodes: Mapping[str, Any]) -> str:
    """Return the SHA-256 of metadata documents in canonical JSON."""
    return _digest(nodes)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()


def _check_paths(source: str, target: str, work_root: str) -> None:
    real = {
        name: os.path.realpath(path)
        for name, path in (("source", source), ("target", target), ("work directory", work_root))
    }
    for inner, outer in (
        ("target", "source"),
        ("source", "target"),
        ("work directory", "source"),
        ("source", "work directory"),
        ("work directory", "target"),
        ("target", "work directory"),
    ):
        if os.path.commonpath([real[inner], real[outer]]) == real[outer]:
            same = "is the same as" if real[inner] == real[outer] else "lies inside"
            raise RequestError(f"the {inner} {real[inner]} {same} the {outer} {real[outer]}: choose another place")


def check_target(request: Request) -> None:
    """Refuse a target that exists, or that holds an unfinished run of another request, unless it may be replaced.

    Raises
    ------
    RequestError
        With the reason and the way out.
    """
    state, mark = target_state(request.target)
    parent = os.path.dirname(request.target)
    existing = next(p for p in _parents(parent) if os.path.exists(p))
    if not os.path.isdir(existing) or not os.access(existing, os.W_OK):
        raise RequestError(
            f"the target {request.target} cannot be made: {existing} is not a directory that can be written to"
        )
    if request.config.overwrite:
        return
    if state == "present":
        raise RequestError(f"the target {request.target} exists: choose another one, or replace it with --overwrite")
    if state == "uncommitted" and mark.get("request_digest") != request.digest:
        raise RequestError(
            f"the target {request.target} holds an unfinished run of another request "
            f"(digest {mark.get('request_digest')}, this one is {request.digest}): "
            "repeat that request to finish it, or discard it with --overwrite"
        )


def _parents(path: str) -> list[str]:
    return [path, *map(str, _ancestors(path))]


def _ancestors(path: str) -> list[str]:
    found = []
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        found.append(path)
    return found


def plan_request(request: Request, resources: Resources, key_bits: int = 64) -> tuple[Plan, Nodes]:
    """Return the plan of a request and the metadata of its target.

    Parameters
    ----------
    request
        The request.
    resources
        The workers.
    key_bits
        Leading bits of the keys that count; less than 64 only in tests.

    Raises
    ------
    RequestError
        If the output options contradict the source, or the memory is too small.
    """
    config, source = request.config, request.source
    paths = tuple(array.path for array in source.rows)
    nodes = target_nodes(LocalObjects(source.url), source.nodes, paths, request.options)
    facts = [_target_facts(request, nodes, path) for path in paths]
    _check_chunk_bytes(source, nodes, paths)
    plan = build_plan(
        source,
        facts,
        seed=config.seed,
        epoch=config.epoch,
        budget=resources.budget,
        slots=resources.slots,
        fixed=Sizes(config.pile_rows, config.scatter_rows, config.levels),
        target_bytes=_target_bytes(request),
        keep_piles=config.keep_piles,
        key_bits=key_bits,
    )
    for array in facts:
        rows = fitting_rows(plan.pile_rows, array.object_rows, source.n)
        if rows != array.object_rows:
            nodes[array.path] = with_chunk_rows(nodes[array.path], rows)
    return plan, nodes


def _check_chunk_bytes(source: SourceFacts, nodes: Nodes, paths: tuple[str, ...]) -> None:
    """Refuse what Blosc cannot take: chunks of the target, and a row, the least that a chunk of a pile holds."""
    for facts in source.rows:
        if facts.row_bytes > MAX_CHUNK_BYTES:
            raise RequestError(
                f"a row of {facts.path or 'the array'!r} has {format_bytes(facts.row_bytes)}: rows of more than "
                f"{format_bytes(MAX_CHUNK_BYTES)} cannot be put into piles"
            )
    for path in paths:
        array = array_from_documents(LocalObjects(source.url), path, nodes[path])
        chunk_bytes = math.prod(array.chunks) * np.dtype(array.dtype).itemsize
        if chunk_bytes > MAX_CHUNK_BYTES and "blosc" in json.dumps(nodes[path]):
            raise RequestError(
                f"a chunk of {path or 'the target'!r} would have {format_bytes(chunk_bytes)}, and Blosc takes at most "
                f"{format_bytes(MAX_CHUNK_BYTES)}: choose fewer --chunk-rows or another --codec"
            )


def _target_facts(request: Request, nodes: Nodes, path: str) -> ArrayFacts:
    return array_facts(LocalObjects(request.target), path, nodes[path])


def _target_bytes(request: Request) -> int:
    """Estimate the target's stored bytes from the source's: the same with the same codec, else somewhat more."""
    source, codec = request.source, request.options.codec
    raw = source.n * source.row_bytes
    if codec is None:
        return source.stored_bytes + source.copied_bytes
    return (raw if codec.name == "none" else min(raw, int(source.stored_bytes * PILE_EXPANSION))) + source.copied_bytes


def check_disk(request: Request, plan: Plan) -> None:
    """Refuse a run that the disks cannot hold.

    Raises
    ------
    RequestError
        With the bytes needed for target and piles, and the bytes free.
    """
    needs = {request.target: plan.target_bytes, request.work_root: plan.temporary_bytes}
    places = {path: next(p for p in _parents(path) if os.path.exists(p)) for path in needs}
    devices: dict[int, int] = {}
    for path, place in places.items():
        devices[os.stat(place).st_dev] = devices.get(os.stat(place).st_dev, 0) + needs[path]
    for place in places.values():
        free, need = shutil.disk_usage(place).free, devices[os.stat(place).st_dev]
        if need > free:
            raise RequestError(
                f"the disk of {place} is too small: the target needs about {format_bytes(plan.target_bytes)} "
                f"and the piles about {format_bytes(plan.temporary_bytes)}, {format_bytes(need)} of it here, and "
                f"{format_bytes(free)} are free; make room, or choose another --work-dir"
            )
