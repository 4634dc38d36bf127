"""Negative controls: whatever is done to rows between the stages or after the commit, the certificate notices it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from oracle import assert_rows_in_order, row_order, stored_values
from strategies import synchronous

from shuffle_tasks import STAGES, CertificateError, RunError, ShuffleRun, StorageError, run_shuffle, verify
from shuffle_tasks.planning import plan
from shuffle_tasks.planning.config import ShuffleConfig
from shuffle_tasks.storage.piles import PileLevel

N = 120
SIZES = {"pile_rows": 40, "scatter_rows": 50, "levels": 1}


def write_source(path: Path) -> dict[str, np.ndarray]:
    """Write images and labels, every row another one."""
    random = np.random.Generator(np.random.Philox(4))
    images = random.normal(size=(N, 3)).astype("f4")
    root = zarr.create_group(path)
    root.create_array("images", data=images, chunks=(20, 3), dimension_names=["row", "x"])
    root.create_array("labels", data=np.arange(N, dtype="i8"), chunks=(10,), dimension_names=["row"])
    return stored_values(path)


def read_segments(piles: PileLevel, name: str) -> list[np.ndarray]:
    """Return the rows of every pile."""
    counts, array = piles.read_counts(), piles.variable(name) if name != "key" else piles.keys
    spans = range(len(counts))
    return [piles.read_pile(array, pile, spans, counts[:, pile]).copy() for pile in range(counts.shape[1])]


def write_segments(piles: PileLevel, name: str, values: list[np.ndarray]) -> None:
    """Write the rows of every pile back."""
    counts, array = piles.read_counts(), piles.variable(name) if name != "key" else piles.keys
    for pile, rows in enumerate(values):
        cuts = np.concatenate([[0], np.cumsum(counts[:, pile])])
        for span in range(len(counts)):
            piles._write(array, span, range(pile, pile + 1), rows, None, cuts[span : span + 2])


def flip_two_signs(piles: PileLevel) -> None:
    """Flip the signs of two rows of images."""
    images = read_segments(piles, "images")
    images[0][3, 0] *= -1
    images[1][5, 0] *= -1
    write_segments(piles, "images", images)


def roll_labels(piles: PileLevel) -> None:
    """Give every image the label of its neighbour."""
    labels = read_segments(piles, "labels")
    rolled = np.roll(np.concatenate(labels), 1)
    write_segments(piles, "labels", np.split(rolled, np.cumsum([len(rows) for rows in labels])[:-1]))


def repeat_one_drop_one(piles: PileLevel) -> None:
    """Write one row over another."""
    for name in ("images", "labels"):
        values = read_segments(piles, name)
        values[1][7] = values[1][6]
        write_segments(piles, name, values)


def swap_piles(piles: PileLevel) -> None:
    """Exchange two piles of the same size, keys and all."""
    for name in ("images", "labels", "key"):
        values = read_segments(piles, name)
        write_segments(piles, name, [values[1], values[0], *values[2:]])


def swap_rows_of_piles(piles: PileLevel) -> None:
    """Exchange a row of one pile with a row of another."""
    for name in ("images", "labels"):
        values = read_segments(piles, name)
        values[0][2], values[2][2] = values[2][2].copy(), values[0][2].copy()
        write_segments(piles, name, values)


def change_a_key(piles: PileLevel) -> None:
    """Change one key within its pile, so that its row moves."""
    keys = read_segments(piles, "key")
    order = np.argsort(keys[0])
    keys[0][order[4]] = keys[0][order[9]] + np.uint64(1)
    write_segments(piles, "key", keys)


def cut_a_chunk(piles: PileLevel) -> None:
    """Truncate a stored object."""
    path = Path(piles.objects.path("images/c/1/1/0/0"))
    path.write_bytes(path.read_bytes()[:-5])


def flip_a_bit(piles: PileLevel) -> None:
    """Flip one stored bit."""
    path = Path(piles.objects.path("images/c/1/1/0/0"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))


def lose_a_chunk(piles: PileLevel) -> None:
    """Remove a stored object."""
    os.unlink(piles.objects.path("labels/c/0/2/0"))


def keep_the_order(piles: PileLevel) -> None:
    """Make the keys ascend with the source rows, as a run that does not shuffle would."""
    counts = piles.read_counts()
    keys = read_segments(piles, "key")
    write_segments(piles, "key", [np.sort(rows) for rows in keys])
    assert counts.sum() == N


TAMPERINGS: list[tuple[Callable[[PileLevel], None], type[RunError], str]] = [
    (flip_two_signs, CertificateError, "content"),
    (roll_labels, CertificateError, "content"),
    (repeat_one_drop_one, CertificateError, "content"),
    (swap_piles, CertificateError, "outside its range"),
    (swap_rows_of_piles, CertificateError, "binding"),
    (change_a_key, CertificateError, "binding"),
    (keep_the_order, CertificateError, "binding"),
    (cut_a_chunk, StorageError, "images"),
    (flip_a_bit, StorageError, "images"),
    (lose_a_chunk, StorageError, "labels"),
]


def assert_uncommitted(target: str) -> None:
    """Check that no reader opens the target, and that trying does not change it."""
    before = snapshot(Path(target))
    for mode in ("r", "r+", "a", "w-"):
        with pytest.raises(Exception, match=r".+"):
            zarr.open(target, mode=mode)
        with pytest.raises(Exception, match=r".+"):
            zarr.open_group(target, mode=mode)
    for consolidated in (None, True, False):
        with pytest.raises(Exception, match=r".+"):
            xr.open_zarr(target, consolidated=consolidated)
    assert snapshot(Path(target)) == before


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run_until(config: ShuffleConfig, last: str) -> ShuffleRun:
    """Run the stages up to `last`, and leave the run open."""
    run = ShuffleRun(config).__enter__()
    for stage in STAGES[: STAGES.index(last) + 1]:
        run.run_stage(stage)
    return run


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShuffleConfig:
    """Return a request with three piles of three segments each, combined by index."""
    monkeypatch.setattr(plan, "SMALL_SEGMENT_BYTES", 0)
    write_source(tmp_path / "in.zarr")
    return synchronous(tmp_path / "in.zarr", tmp_path / "out.zarr", seed=6, **SIZES)


def finish(config: ShuffleConfig, tamper: Callable[[ShuffleRun], None], after: str) -> None:
    """Run all stages, and do something behind one of them."""
    with ShuffleRun(config) as run:
        for stage in STAGES:
            run.run_stage(stage)
            if stage == after:
                tamper(run)


@pytest.mark.parametrize(("tamper", "error", "said"), TAMPERINGS, ids=[row[0].__name__ for row in TAMPERINGS])
def test_tampered_piles_fail_the_run(
    config: ShuffleConfig, tamper: Callable[[PileLevel], None], error: type[RunError], said: str
) -> None:
    """A run whose piles were changed before the shuffle fails, and its target stays closed to every reader."""
    with pytest.raises(error, match=said):
        finish(config, lambda run: tamper(PileLevel(run.spec, 0)), after="combine")
    assert_uncommitted(config.target)


def test_untouched_piles_pass(config: ShuffleConfig) -> None:
    """Reading the piles and writing them back as they were changes nothing."""

    def rewrite(run: ShuffleRun) -> None:
        piles = PileLevel(run.spec, 0)
        for name in ("images", "labels", "key"):
            write_segments(piles, name, read_segments(piles, name))

    finish(config, rewrite, after="combine")
    assert verify(config.target, config.source).ok


@pytest.mark.parametrize("readback", [False, True])
def test_a_lost_target_chunk_fails_the_run(config: ShuffleConfig, readback: Any) -> None:
    """A chunk of the target that is gone before the verification fails the run."""
    config = config.model_copy(update={"verify_readback": readback})
    with pytest.raises(RunError, match=r"labels/c/3.*missing"):
        finish(config, lambda run: os.unlink(f"{run.spec.target_root}/labels/c/3"), after="shuffle")
    assert_uncommitted(config.target)


def test_a_changed_target_chunk_fails_the_readback(config: ShuffleConfig) -> None:
    """With a readback, a chunk that was changed after it was written fails the run."""

    def change(run: ShuffleRun) -> None:
        one, other = (Path(f"{run.spec.target_root}/labels/c/{number}") for number in (3, 4))
        one.write_bytes(other.read_bytes())

    with pytest.raises(StorageError, match="content"):
        finish(config.model_copy(update={"verify_readback": True}), change, after="shuffle")
    assert_uncommitted(config.target)


@pytest.mark.parametrize("change", [{"rows": 49}, {"counts": [50, 0, 0]}, {"counts": [16, 17, 18]}])
def test_a_scatter_record_that_does_not_add_up_fails_the_run(config: ShuffleConfig, change: dict[str, Any]) -> None:
    """Combine refuses records that lose, repeat or misplace rows."""

    def tamper(run: ShuffleRun) -> None:
        objects, key = run.spec.objects(), "records/scatter-00001.json"
        objects.put_json(key, objects.get_json(key) | change)

    with pytest.raises(CertificateError, match="lost"):
        finish(config, tamper, after="scatter")
    assert_uncommitted(config.target)


def test_a_lost_record_fails_the_run(config: ShuffleConfig) -> None:
    """A scatter task without its commit record is never taken for an empty one."""
    with pytest.raises(StorageError, match="no commit record"):
        finish(config, lambda run: run.spec.objects().delete("records/scatter-00001.json"), after="scatter")
    assert_uncommitted(config.target)


def test_a_failed_certificate_is_repaired_by_the_same_command(config: ShuffleConfig) -> None:
    """After a failed verification, the same request again does not fail for ever: what was lost is written anew."""
    with pytest.raises(RunError):
        finish(config, lambda run: os.unlink(f"{run.spec.target_root}/labels/c/3"), after="shuffle")
    run_shuffle(config)
    assert_rows_in_order(config.target, stored_values(config.source), row_order(N, 6))


@pytest.mark.parametrize("tamper", [flip_two_signs, cut_a_chunk, lose_a_chunk])
def test_damaged_piles_are_repaired_by_the_same_command_with_overwrite(
    config: ShuffleConfig, tamper: Callable[[PileLevel], None]
) -> None:
    """After piles were damaged, the same request with overwrite starts anew."""
    with pytest.raises(RunError):
        finish(config, lambda run: tamper(PileLevel(run.spec, 0)), after="combine")
    run_shuffle(config.model_copy(update={"overwrite": True}))
    assert_rows_in_order(config.target, stored_values(config.source), row_order(N, 6))
