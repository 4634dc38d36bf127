"""What xarray sees: the target is the source with its rows in another order, and nothing else differs."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from oracle import row_order
from strategies import synchronous

from shuffle_tasks import ShuffleConfig, run_shuffle, verify

# Fixed-length strings have no final specification in Zarr 3: these tests write and read them all the same.
pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
ENCODINGS = (
    "dtype",
    "_FillValue",
    "chunks",
    "shards",
    "compressors",
    "compressor",
    "filters",
    "scale_factor",
    "add_offset",
    "units",
    "calendar",
    "coordinates",
    "serializer",
)


def survey(n: int) -> xr.Dataset:
    """Return a dataset with all that xarray writes in its own way."""
    random = np.random.Generator(np.random.Philox(n))
    image = random.normal(size=(n, 3, 4)).astype("f4")
    image[::3, 1] = np.nan
    rows = {
        "image": (("row", "y", "x"), image, {"units": "K", "long_name": "température"}),
        "label": ("row", random.integers(-100, 100, n, dtype="i2")),
        "weight": ("row", random.integers(0, 50, n) / 4),
        "name": ("row", np.array([f"n{i:03d}" for i in range(n)], "U6")),
        "tag": ("row", np.array([b"t%d" % i for i in range(n)], "S5")),
        "flag": ("row", random.integers(0, 2, n).astype(bool)),
        "taken": ("row", np.datetime64("2020-01-01", "ns") + random.integers(0, 10**6, n).astype("m8[s]")),
        "wave": ("row", random.normal(size=n) + 1j * random.normal(size=n)),
    }
    others = {
        "palette": (("y",), np.arange(3, dtype="u1")),
        "words": (("word",), np.array(["one", "zwei", "três", ""], object)),
        "version": ((), 7),
    }
    coords = {"row": np.arange(n)[::-1] * 10, "y": [1.5, 2.5, 3.5], "lat": ("row", random.normal(size=n)), "site": "A"}
    dataset = xr.Dataset(
        rows | others, coords=coords, attrs={"title": "survey", "numbers": [1, 2.5], "nested": {"a": None}}
    )
    for name in {"row", "lat", *rows}:
        dataset[name].encoding = {"chunks": (10, *dataset[name].shape[1:])}
    dataset["image"].encoding["chunks"] = (5, 2, 4)
    dataset["label"].encoding |= {"_FillValue": -1}
    dataset["weight"].encoding |= {"dtype": "i2", "scale_factor": 0.25, "add_offset": 1.0, "_FillValue": -999}
    return dataset


def request_of(folder: Path, **fields: Any) -> ShuffleConfig:
    """Return the request for the survey, which has arrays without rows as well."""
    return synchronous(folder / "in.zarr", folder / "out.zarr", row_dim="row", **fields)


def write(dataset: xr.Dataset, path: Any, zarr_format: int, **options: Any) -> None:
    """Write a dataset with xarray."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Consolidated metadata is currently not part")
        dataset.to_zarr(path, zarr_format=zarr_format, **options)


def opened(path: Any, **options: Any) -> xr.Dataset:
    """Return a dataset that xarray reads, in memory."""
    with xr.open_zarr(path, chunks=None, **options) as dataset:
        return dataset.load()


def text_of(value: Any) -> str:
    """Return an encoding as text, so that NaN equals NaN."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def assert_same_encoding(after: xr.Dataset, before: xr.Dataset, names: tuple[str, ...] = ENCODINGS) -> None:
    """Check that every variable is stored in the same way."""
    for variable in before.variables:
        have, want = after[variable].encoding, before[variable].encoding
        for name in names:
            assert text_of(have.get(name)) == text_of(want.get(name)), (variable, name)


def assert_shuffled(config: ShuffleConfig, *, encoding: bool = True, **options: Any) -> None:
    """Check that the target is what xarray makes of the source with its rows in the order of the definition."""
    for decoding in ({}, {"mask_and_scale": False, "decode_times": False}):
        before = opened(config.source, **options, **(decoding if encoding else {}))
        after = opened(config.target, **(decoding if encoding else {}))
        xr.testing.assert_identical(after, before.isel(row=row_order(before.sizes["row"], config.seed)))
        assert {name: v.dtype for name, v in after.variables.items()} == {
            name: v.dtype for name, v in before.variables.items()
        }
        if encoding:
            assert_same_encoding(after, before)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("sizes", [{}, {"pile_rows": 20, "scatter_rows": 15}, {"pile_rows": 10, "levels": 2}])
def test_a_survey_keeps_everything_but_the_order(tmp_path: Path, zarr_format: int, sizes: dict[str, Any]) -> None:
    """Values, dtypes, attributes, coordinates, dimensions, fill values, chunks and codecs are those of the source."""
    write(survey(40), tmp_path / "in.zarr", zarr_format)
    config = request_of(tmp_path, seed=3, **sizes)
    run_shuffle(config)
    assert_shuffled(config)
    assert verify(config.target, config.source).ok


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_unconsolidated_source(tmp_path: Path, zarr_format: int) -> None:
    """A source without consolidated metadata gives a target with it, complete."""
    write(survey(20), tmp_path / "in.zarr", zarr_format, consolidated=False)
    config = request_of(tmp_path, levels=1, pile_rows=10)
    run_shuffle(config)
    assert_shuffled(config, consolidated=False)
    xr.testing.assert_identical(opened(config.target, consolidated=True), opened(config.target, consolidated=False))


@pytest.mark.parametrize(("have", "want"), [(2, 3), (3, 2)])
@pytest.mark.parametrize("drop", ["", "image label weight"])
def test_another_format_reads_the_same(tmp_path: Path, have: int, want: int, drop: str) -> None:
    """A target of the other Zarr format gives xarray the same dataset, missing values and scaling included."""
    write(survey(30).drop_vars(drop.split()), tmp_path / "in.zarr", have)
    config = request_of(tmp_path, seed=1, zarr_format=want, pile_rows=10)
    run_shuffle(config)
    assert_shuffled(config, encoding=False)
    names = ("dtype", "_FillValue", "chunks", "scale_factor", "add_offset", "units", "calendar")
    assert_same_encoding(opened(config.target), opened(config.source), names)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("n", [0, 1, 2])
def test_very_short_datasets(tmp_path: Path, zarr_format: int, n: int) -> None:
    """No row, one row, and fewer rows than a chunk are shuffled like any other number."""
    write(survey(n), tmp_path / "in.zarr", zarr_format)
    config = request_of(tmp_path)
    assert run_shuffle(config).n == n
    assert_shuffled(config)
    assert verify(config.target, config.source).ok


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_subgroups_are_copied(tmp_path: Path, zarr_format: int) -> None:
    """Subgroups without the row dimension are copied, attributes and nesting included."""
    write(survey(12), tmp_path / "in.zarr", zarr_format)
    extra = xr.Dataset({"a": ("k", np.arange(5.0)), "s": ((), "text")}, attrs={"of": "extra"})
    for group in ("extra", "extra/deeper"):
        write(extra, tmp_path / "in.zarr", zarr_format, group=group, mode="a", consolidated=False)
    config = request_of(tmp_path, levels=1)
    run_shuffle(config)
    assert_shuffled(config, consolidated=False)
    for group in ("extra", "extra/deeper"):
        before = opened(config.source, group=group, consolidated=False)
        xr.testing.assert_identical(opened(config.target, group=group, consolidated=False), before)
        xr.testing.assert_identical(opened(config.target, group=group), before)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_rows_in_a_subgroup_have_the_same_order(tmp_path: Path, zarr_format: int) -> None:
    """An array in a subgroup whose first dimension is the row dimension is shuffled with the others."""
    write(survey(12), tmp_path / "in.zarr", zarr_format)
    write(
        xr.Dataset({"score": ("row", np.arange(12))}),
        tmp_path / "in.zarr",
        zarr_format,
        group="model",
        mode="a",
        consolidated=False,
    )
    config = request_of(tmp_path, seed=8, pile_rows=5)
    run_shuffle(config)
    score = opened(config.target, group="model").score
    np.testing.assert_array_equal(score, row_order(12, 8))


def test_shards_chunks_and_codecs_of_the_target(tmp_path: Path) -> None:
    """Options for shards, chunks and the codec show in the target's encoding, and change no value."""
    write(survey(50)[["image", "label"]], tmp_path / "in.zarr", 3)
    config = request_of(tmp_path, chunk_rows=4, shard_rows=12, codec="blosc:zstd:1", pile_rows=24)
    run_shuffle(config)
    assert_shuffled(config, encoding=False)
    image = opened(config.target).image.encoding
    assert (image["chunks"], image["shards"]) == ((4, 2, 4), (12, 2, 4))
    (compressor,) = (codec.to_dict() for codec in image["compressors"])
    settings = compressor["configuration"]
    assert (compressor["name"], str(getattr(settings["cname"], "value", settings["cname"]))) == ("blosc", "zstd")
    assert (settings["clevel"], settings["typesize"]) == (
        1,
        np.dtype(opened(config.target).image.encoding["dtype"]).itemsize,
    )


def test_a_sharded_source_stays_sharded(tmp_path: Path) -> None:
    """Without options, a sharded source gives a target with the same shards and inner chunks."""
    dataset = survey(50)[["image"]].drop_vars(["lat", "row"])
    dataset["image"].encoding = {"chunks": (4, 3, 2), "shards": (12, 3, 4)}
    write(dataset, tmp_path / "in.zarr", 3)
    config = request_of(tmp_path, pile_rows=12, scatter_rows=9)
    run_shuffle(config)
    assert_shuffled(config)
