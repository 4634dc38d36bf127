"""Real input: the MNIST test split, shuffled with its labels through two passes and checked image by image."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray
from oracle import row_order
from strategies import synchronous

from shuffle_tasks import run_shuffle, verify

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SEED = 1998

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the MNIST test split is not at {DATA}")


def read_idx(name: str) -> NDArray[np.uint8]:
    """Return the array of an IDX file: two zero bytes, a type, the number of axes, their lengths, and the values."""
    data = gzip.decompress((DATA / name).read_bytes())
    zeros, kind, axes = struct.unpack_from(">HBB", data)
    assert (zeros, kind) == (0, 8)  # unsigned bytes
    shape = struct.unpack_from(f">{axes}I", data, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def write_split(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Write the images and labels, and return them."""
    images, labels = read_idx("t10k-images-idx3-ubyte.gz"), read_idx("t10k-labels-idx1-ubyte.gz")
    root = zarr.create_group(path)
    root.create_array("images", data=images, chunks=(256, 28, 28), dimension_names=["sample", "y", "x"])
    root.create_array("labels", data=labels, chunks=(1024,), dimension_names=["sample"])
    return images, labels


def test_every_image_keeps_its_label(tmp_path: Path) -> None:
    """Each of the 10,000 images stands with its own label at the row where the definition puts it."""
    images, labels = write_split(tmp_path / "mnist.zarr")
    assert images.shape == (10_000, 28, 28)
    assert np.bincount(labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    config = synchronous(
        tmp_path / "mnist.zarr", tmp_path / "out.zarr", seed=SEED, levels=1, pile_rows=2048, scatter_rows=2500
    )
    report = run_shuffle(config)
    assert (report.plan["piles"], report.plan["scatter_tasks"]) == (5, 4)
    shuffled = zarr.open_group(config.target, mode="r")
    found_images, found_labels = np.asarray(shuffled["images"][...]), np.asarray(shuffled["labels"][...])
    for at, row in enumerate(row_order(10_000, SEED)):
        assert found_labels[at] == labels[row], (at, row)
        assert np.array_equal(found_images[at], images[row]), (at, row)
    assert verify(config.target, config.source).ok
