"""What codecs and arithmetic cost alone, and their share of a real run: `python -m benchmarks.roofline --dir DIR`.

Every step of the shuffle is timed in one thread on some chunks of the source, in seconds a GB of decoded rows. Their
sum is the roofline: what a core would need if there were nothing else. A real run's task seconds are compared with it,
stage by stage.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.compare import add_workload_options, describe_machine, describe_workload, write_json
from benchmarks.contest import SEED, Contest, open_contest, run_once, warm_up
from benchmarks.peers import CONTENDERS
from benchmarks.tables import show_numbers
from benchmarks.workloads import MIB, arrays_of, scaled
from shuffle_tasks.planning.memory import piece_rows
from shuffle_tasks.randomness import KeyStream, stable_order
from shuffle_tasks.row_hash import RowHasher, binding_digest, content_digest, order_digest
from shuffle_tasks.storage.codecs import ChunkCodec, chunk_codec, one_codec_thread
from shuffle_tasks.storage.objects import LocalObjects
from shuffle_tasks.storage.piles import pile_codecs

SAMPLE_BYTES = 64 * MIB
SEGMENTS = 16
"""Sorted runs a pile is merged from, and segments a task is cut into, in the sample."""

SCATTER = ("source decode", "digest", "keys and sort", "gather", "pile encode", "pile file writes")
SHUFFLE = ("pile decode", "merge sort", "gather and digest", "target encode", "target file writes")


@dataclass(frozen=True, slots=True)
class Sample:
    """Some rows of one array as they are stored, decoded, and in pieces of piles.

    Attributes
    ----------
    rows : ndarray
        Decoded.
    chunks : list of bytes
        As stored in the source; whole chunks.
    chunk_rows, piece_rows : int
        Rows of a chunk, and of a stored piece of a pile.
    source, pile : ChunkCodec
        Codecs of chunks and of pieces.
    """

    rows: NDArray[Any]
    chunks: list[bytes]
    chunk_rows: int
    piece_rows: int
    source: ChunkCodec
    pile: ChunkCodec


def take_sample(path: str, name: str, array: zarr.Array[Any]) -> Sample:
    """Return the first chunks of an array, about `SAMPLE_BYTES` decoded.

    Raises
    ------
    ValueError
        If the array's codecs are not among those that the shuffle runs itself.
    """
    chunk_rows = array.chunks[0]
    chunk_bytes = array.dtype.itemsize * int(np.prod(array.chunks))
    count = max(1, min(SAMPLE_BYTES // chunk_bytes, array.shape[0] // chunk_rows))
    objects, folder = LocalObjects(path), f"{name}/" if name else ""
    keys = (array.metadata.encode_chunk_key((k, *(0,) * (array.ndim - 1))) for k in range(count))
    chunks = [objects.get(folder + key) or b"" for key in keys]
    rows = np.empty((count * chunk_rows, *array.shape[1:]), array.dtype)
    source = chunk_codec(array)
    pieces = piece_rows(len(rows) // SEGMENTS or 1, max(1, rows.nbytes // len(rows)))
    pile = chunk_codec(
        zarr.create_array(
            {}, shape=(pieces, *rows.shape[1:]), chunks=(pieces, *rows.shape[1:]), dtype=rows.dtype,
            compressors=pile_codecs(rows.dtype),
        )
    )  # fmt: skip
    if source is None or pile is None:
        raise ValueError(f"the codecs of {name or 'the array'} are left to zarr-python: there is no roofline for them")
    for part, chunk in zip(np.split(rows, count), chunks, strict=True):
        source.decode(chunk, part)
    return Sample(rows, chunks, chunk_rows, pieces, source, pile)


def _blocks(rows: NDArray[Any], size: int) -> Iterator[NDArray[Any]]:
    for start in range(0, len(rows) - size + 1, size):
        yield rows[start : start + size]


def _write_files(objects: LocalObjects, parts: Sequence[Any]) -> None:
    for number, part in enumerate(parts):
        objects.put(str(number), memoryview(part).cast("B"))


def _hash(rows: NDArray[Any], keys: NDArray[np.uint64], *, order: bool) -> None:
    hasher = RowHasher([rows.nbytes // len(rows)])
    sums = hasher.zeros(len(rows))
    hasher.add(sums, 0, rows)
    hashes = hasher.finish(sums)
    content_digest(hashes)
    binding_digest(hashes, keys)
    if order:
        order_digest(hashes, 0)


def steps_of(sample: Sample, folder: str) -> dict[str, Callable[[], Any]]:
    """Return each step of the shuffle on the sample, in the order of a run, as a function without arguments."""
    rows, scratch, objects = sample.rows, np.empty_like(sample.rows), LocalObjects(folder)
    keys = KeyStream(SEED).words(0, len(rows))
    order = stable_order(keys)
    runs = np.concatenate([np.sort(part) for part in np.array_split(keys, SEGMENTS)])
    pieces = list(_blocks(rows, sample.piece_rows))
    piled = [b"".join(map(bytes, sample.pile.encode(piece))) for piece in pieces]

    def gather() -> None:
        np.take(rows, order, axis=0, out=scratch, mode="clip")

    def gather_and_digest() -> None:
        gather()
        _hash(scratch, keys, order=True)

    return {
        "source decode": lambda: [
            sample.source.decode(c, part)
            for c, part in zip(sample.chunks, _blocks(scratch, sample.chunk_rows), strict=True)
        ],
        "digest": lambda: _hash(rows, keys, order=False),
        "keys and sort": lambda: stable_order(KeyStream(SEED).words(0, len(rows))),
        "gather": gather,
        "pile encode": lambda: [sample.pile.encode(piece) for piece in pieces],
        "pile file writes": lambda: _write_files(objects.child("piles"), piled),
        "pile decode": lambda: [
            sample.pile.decode(data, part)
            for data, part in zip(piled, _blocks(scratch, sample.piece_rows), strict=True)
        ],
        "merge sort": lambda: stable_order(runs),
        "gather and digest": gather_and_digest,
        "target encode": lambda: [sample.source.encode(part) for part in _blocks(rows, sample.chunk_rows)],
        "target file writes": lambda: _write_files(objects.child("target"), sample.chunks),
    }


def measure_steps(steps: Mapping[str, Callable[[], Any]], repeat: int) -> dict[str, float]:
    """Return the median seconds of every step; a first round is not counted."""
    found: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(repeat + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if turn:
                found[name].append(time.perf_counter() - start)
    return {name: median(seconds) for name, seconds in found.items()}


def measure_roofline(contest: Contest, repeat: int) -> dict[str, float]:
    """Return the seconds of every step a GB of decoded rows of all arrays together."""
    total: dict[str, float] = dict.fromkeys((*SCATTER, *SHUFFLE), 0.0)
    folder = os.path.join(contest.folder, "target-roofline")
    for name, array in arrays_of(contest.source).items():
        sample = take_sample(contest.source, name, array)
        with one_codec_thread():
            seconds = measure_steps(steps_of(sample, folder), repeat)
        share = array.nbytes / contest.workload.bytes / (sample.rows.nbytes / 1e9)
        for step, value in seconds.items():
            total[step] += value * share
        LocalObjects(folder).delete_tree()
    return total


def shares(
    roofline: Mapping[str, float], stages: Mapping[str, Mapping[str, Any]], gigabytes: float
) -> dict[str, float]:
    """Return, for each stage, its part of the roofline over the seconds of its tasks in a real run."""
    parts = {"scatter": SCATTER, "shuffle": SHUFFLE}
    wanted = {stage: gigabytes * sum(roofline[step] for step in steps) for stage, steps in parts.items()}
    spent = {stage: stages[stage]["task_seconds"] for stage in parts}
    wanted["both"], spent["both"] = sum(wanted.values()), sum(spent.values())
    return {stage: wanted[stage] / seconds for stage, seconds in spent.items() if seconds}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_workload_options(parser)
    options = parser.parse_args(arguments)
    workload = scaled(options.workload, options.scale, options.memory, options.workers)
    document = {"benchmark": "roofline", "workload": describe_workload(workload), "machine": describe_machine()}
    with open_contest(workload, options.dir, levels=options.levels) as contest:
        warm_up(contest, [CONTENDERS["ours"]])
        runs = [run_once(contest, CONTENDERS["ours"], check=False) for _ in range(options.repeat)]
        roofline = measure_roofline(contest, options.repeat)
    stages = sorted(runs, key=lambda run: run.seconds)[len(runs) // 2].report["stages"]
    found = shares(roofline, stages, workload.bytes / 1e9)
    figures = {f"{step}, s/GB": value for step, value in roofline.items()}
    figures["roofline, s/GB"] = sum(roofline.values())
    figures |= {f"roofline's share of {stage} tasks": value for stage, value in found.items()}
    document |= {"stages": stages, "figures": figures}
    write_json(options.json, document)
    show_numbers(Console(), f"workload {workload.name}, one core", figures)


if __name__ == "__main__":
    main()
