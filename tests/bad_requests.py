"""Requests that must be refused: each case prepares a folder, and returns what differs from a sound request."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from strategies import synchronous

from shuffle_tasks import ShuffleRun

Case = Callable[[Path], dict[str, Any]]


def write_group(folder: Path, **rows: int) -> Path:
    """Write a group of arrays of so many rows, with the row dimension "row"."""
    root = zarr.create_group(folder / "in.zarr")
    for name, n in (rows or {"a": 30, "b": 30}).items():
        root.create_array(name, data=np.arange(n), chunks=(4,), dimension_names=["row"])
    return folder / "in.zarr"


def no_source(folder: Path) -> dict[str, Any]:
    """Name a source that does not exist."""
    return {"source": folder / "absent.zarr"}


def file_as_source(folder: Path) -> dict[str, Any]:
    """Name a plain file."""
    (folder / "file").write_text("no Zarr")
    return {"source": folder / "file"}


def empty_source(folder: Path) -> dict[str, Any]:
    """Name an empty directory."""
    (folder / "empty").mkdir()
    return {"source": folder / "empty"}


def damaged_source(folder: Path) -> dict[str, Any]:
    """Cut the metadata of an array."""
    path = write_group(folder) / "a/zarr.json"
    path.write_text(path.read_text()[:50])
    return {}


def garbled_source(folder: Path) -> dict[str, Any]:
    """Write bytes that are no text where the metadata is."""
    (write_group(folder) / "a/zarr.json").write_bytes(b"\xff\xfe\x00")
    return {}


def senseless_source(folder: Path) -> dict[str, Any]:
    """Drop the shape from the metadata of an array."""
    path = write_group(folder) / "a/zarr.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "shape"}))
    return {}


def list_as_metadata(folder: Path) -> dict[str, Any]:
    """Write JSON that is no object where the root metadata is."""
    (write_group(folder) / "zarr.json").write_text("[1, 2]")
    return {}


def unknown_format(folder: Path) -> dict[str, Any]:
    """Write a root of Zarr format 4."""
    (write_group(folder) / "zarr.json").write_text('{"zarr_format": 4, "node_type": "group"}')
    return {}


def unknown_dtype(folder: Path) -> dict[str, Any]:
    """Write a data type that nobody knows."""
    path = write_group(folder) / "a/zarr.json"
    path.write_text(path.read_text().replace('"int64"', '"int63"'))
    return {}


def uncommitted_source(folder: Path) -> dict[str, Any]:
    """Take the unfinished target of another run as the source."""
    write_group(folder)
    with ShuffleRun(synchronous(folder / "in.zarr", folder / "half.zarr")) as run:
        run.run_stage("plan")
    return {"source": folder / "half.zarr"}


def group_without_arrays(folder: Path) -> dict[str, Any]:
    """Write a group without members."""
    zarr.create_group(folder / "in.zarr")
    return {}


def scalar_array(folder: Path) -> dict[str, Any]:
    """Write an array without dimensions."""
    zarr.create_array(folder / "in.zarr", data=np.array(1))
    return {}


def several_dimensions(folder: Path) -> dict[str, Any]:
    """Write variables whose first dimensions differ."""
    data = xr.Dataset({"a": ("time", np.arange(5)), "b": ("station", np.arange(7))}, {"level": [1, 2]})
    data.to_zarr(folder / "in.zarr", zarr_format=2)
    return {}


def unknown_row_dim(folder: Path) -> dict[str, Any]:
    """Ask for a dimension that no array has."""
    write_group(folder)
    return {"row_dim": "sample"}


def row_dim_second(folder: Path) -> dict[str, Any]:
    """Ask for a dimension that an array has in second place."""
    write_group(folder)
    zarr.open_group(folder / "in.zarr").create_array("c", data=np.zeros((2, 30)), dimension_names=["x", "row"])
    return {"row_dim": "row"}


def different_lengths(folder: Path) -> dict[str, Any]:
    """Write arrays of different length."""
    write_group(folder, a=30, b=29)
    return {}


def unnamed_different_lengths(folder: Path) -> dict[str, Any]:
    """Write arrays of different length without dimension names."""
    root = zarr.create_group(folder / "in.zarr")
    root.create_array("a", data=np.arange(30))
    root.create_array("b", data=np.arange(31))
    return {}


def variable_length_rows(folder: Path) -> dict[str, Any]:
    """Write strings of any length along the rows."""
    xr.Dataset({"words": ("row", np.array(["a", "bc"], object))}).to_zarr(folder / "in.zarr", zarr_format=2)
    return {}


def mixed_formats(folder: Path) -> dict[str, Any]:
    """Put an array of format 2 into a group of format 3."""
    write_group(folder)
    zarr.create_array(folder / "in.zarr/old", data=np.arange(30), zarr_format=2)
    return {}


def member_named_provenance(folder: Path) -> dict[str, Any]:
    """Write an array where the records of the target would be."""
    write_group(folder, provenance=30)
    return {}


def existing_target(folder: Path) -> dict[str, Any]:
    """Write something where the target would be."""
    write_group(folder)
    zarr.create_array(folder / "out.zarr", data=np.arange(3))
    return {}


def existing_file(folder: Path) -> dict[str, Any]:
    """Write a file where the target would be."""
    write_group(folder)
    (folder / "out.zarr").write_text("precious")
    return {}


def existing_folder(folder: Path) -> dict[str, Any]:
    """Write a directory that is no Zarr where the target would be."""
    write_group(folder)
    (folder / "out.zarr").mkdir()
    (folder / "out.zarr/notes.txt").write_text("precious")
    return {}


def dangling_target(folder: Path) -> dict[str, Any]:
    """Put a symbolic link to nothing where the target would be."""
    write_group(folder)
    (folder / "out.zarr").symlink_to(folder / "nowhere")
    return {}


def unfinished_other_request(folder: Path) -> dict[str, Any]:
    """Leave an unfinished run of another seed at the target."""
    with ShuffleRun(synchronous(write_group(folder), folder / "out.zarr", seed=5)) as run:
        run.run_stage("plan")
    return {}


def target_in_source(folder: Path) -> dict[str, Any]:
    """Name a target inside the source."""
    return {"target": write_group(folder) / "a" / "out.zarr"}


def source_in_target(folder: Path) -> dict[str, Any]:
    """Name a target around the source."""
    write_group(folder)
    return {"target": folder}


def target_is_source(folder: Path) -> dict[str, Any]:
    """Name the source as the target, to be replaced."""
    return {"target": write_group(folder), "overwrite": True}


def target_is_source_by_a_link(folder: Path) -> dict[str, Any]:
    """Name the source as the target by another name."""
    (folder / "link.zarr").symlink_to(write_group(folder))
    return {"target": folder / "link.zarr", "overwrite": True}


def work_in_source(folder: Path) -> dict[str, Any]:
    """Put the work directory into the source."""
    return {"work_dir": write_group(folder) / "work"}


def work_in_target(folder: Path) -> dict[str, Any]:
    """Put the work directory into the target."""
    write_group(folder)
    return {"work_dir": folder / "out.zarr/work"}


def target_below_a_file(folder: Path) -> dict[str, Any]:
    """Name a target below a plain file."""
    write_group(folder)
    (folder / "file").write_text("")
    return {"target": folder / "file/out.zarr"}


def with_fields(**fields: Any) -> Case:
    """Return a case that is only wrong in some fields."""

    def case(folder: Path) -> dict[str, Any]:
        write_group(folder)
        return fields

    case.__name__ = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    return case


CASES: list[tuple[Case, list[str]]] = [
    (no_source, ["absent.zarr", "does not exist"]),
    (file_as_source, ["file", "no Zarr"]),
    (empty_source, ["empty", "no Zarr"]),
    (damaged_source, ["in.zarr", "a/zarr.json"]),
    (garbled_source, ["in.zarr", "damaged"]),
    (senseless_source, ["in.zarr", "'a'"]),
    (list_as_metadata, ["in.zarr"]),
    (unknown_format, ["in.zarr", "format"]),
    (unknown_dtype, ["in.zarr", "'a'", "int63"]),
    (uncommitted_source, ["half.zarr", "never committed"]),
    (group_without_arrays, ["no row dimension"]),
    (scalar_array, ["no row dimension"]),
    (several_dimensions, ["time", "station", "--row-dim"]),
    (unknown_row_dim, ["'sample'", "row"]),
    (row_dim_second, ["'c'", "'row'", "axis 1", "transpose"]),
    (different_lengths, ["30", "29", "'a'", "'b'"]),
    (unnamed_different_lengths, ["30", "31"]),
    (variable_length_rows, ["'words'", "fixed"]),
    (mixed_formats, ["mixes Zarr formats", "old"]),
    (member_named_provenance, ["provenance", "rename"]),
    (existing_target, ["out.zarr", "exists", "--overwrite"]),
    (existing_file, ["out.zarr", "exists"]),
    (existing_folder, ["out.zarr", "exists"]),
    (dangling_target, ["out.zarr", "exists"]),
    (unfinished_other_request, ["unfinished", "--overwrite"]),
    (target_in_source, ["target", "inside", "source"]),
    (source_in_target, ["source", "inside", "target"]),
    (target_is_source, ["same"]),
    (target_is_source_by_a_link, ["same"]),
    (work_in_source, ["work directory", "source"]),
    (work_in_target, ["work directory", "target"]),
    (target_below_a_file, ["file", "not a directory"]),
    (with_fields(seed=-1), ["seed", "0"]),
    (with_fields(seed=2**64), ["seed", str(2**64)[:19]]),
    (with_fields(epoch=2**32), ["epoch"]),
    (with_fields(seed=1.5), ["seed"]),
    (with_fields(memory="lots"), ["memory", "512 MiB"]),
    (with_fields(memory=0), ["memory"]),
    (with_fields(workers=0, scheduler=None), ["workers"]),
    (with_fields(workers=2), ["workers", "synchronous"]),
    (with_fields(scheduler="localhost"), ["scheduler", "tcp://"]),
    (with_fields(chunk_rows=0), ["chunk_rows"]),
    (with_fields(codec="rar"), ["rar", "zstd"]),
    (with_fields(codec="zstd:99"), ["99", "22"]),
    (with_fields(chunk_rows=4, shard_rows=6), ["shard_rows", "multiple"]),
    (with_fields(shard_rows=6), ["6", "4", "multiple"]),
    (with_fields(zarr_format=4), ["zarr_format"]),
    (with_fields(zarr_format=2, shard_rows=8), ["format 2", "shard"]),
    (with_fields(levels=9), ["levels"]),
    (with_fields(colour="red"), ["colour"]),
    (with_fields(memory=1000), ["memory", "1000 B", "MiB"]),
]
