"""The real path against the definition in memory, over layouts, dtypes and sizes."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_rows_in_order, row_order
from strategies import Dataset, datasets, run_sizes, synchronous, target_options

from shuffle_tasks import STAGES, ShuffleConfig, ShuffleRun, run_shuffle, verify
from shuffle_tasks.planning import plan

# zarr-python compares a source with its fill value as it is written; NumPy warns of signalling NaNs in random bits.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in equal:RuntimeWarning")

moderate = settings(deadline=None, database=None, derandomize=True, max_examples=80)
seeds = st.integers(0, 2**64 - 1)


def run_with_ties(config: ShuffleConfig, bits: int) -> ShuffleRun:
    """Run all stages with keys of so many bits."""
    with ShuffleRun(config, key_bits=bits) as run:
        for stage in STAGES:
            run.run_stage(stage)
    return run


@moderate
@given(datasets(), run_sizes(), seeds, st.integers(0, 2**32 - 1))
def test_any_dataset_is_shuffled_by_the_definition(
    dataset: Dataset, sizes: dict[str, Any], seed: int, epoch: int
) -> None:
    """Whatever the layout and the sizes of the run, the target is the source's rows in the order of the definition."""
    with tempfile.TemporaryDirectory() as folder:
        rows = dataset.write(f"{folder}/in.zarr")
        config = synchronous(f"{folder}/in.zarr", f"{folder}/out.zarr", seed=seed, epoch=epoch, **sizes)
        run_shuffle(config)
        assert_rows_in_order(config.target, rows, row_order(dataset.n, seed, epoch))
        assert verify(config.target, config.source).ok


@moderate
@given(datasets(), run_sizes(), target_options())
def test_options_of_the_target_change_no_value(
    dataset: Dataset, sizes: dict[str, Any], options: dict[str, Any]
) -> None:
    """Chunks, shards, codecs and format of the target may differ from the source's: values and order are the same."""
    with tempfile.TemporaryDirectory() as folder:
        rows = dataset.write(f"{folder}/in.zarr")
        config = synchronous(f"{folder}/in.zarr", f"{folder}/out.zarr", seed=1, **sizes, **options)
        if config.shard_rows is not None and (config.zarr_format or dataset.zarr_format) == 2:
            return
        run_shuffle(config)
        assert_rows_in_order(config.target, rows, row_order(dataset.n, 1))
        assert verify(config.target, config.source).ok


@settings(moderate, max_examples=40)
@given(datasets(), run_sizes(), st.sampled_from([1, 4]), st.booleans())
def test_ties_stand_in_the_order_of_the_source(
    dataset: Dataset, sizes: dict[str, Any], bits: int, by_index: Any
) -> None:
    """With keys of one or four bits, rows of equal keys keep their order, over all levels and both consolidations."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "SMALL_SEGMENT_BYTES", 0 if by_index else 10**6)
        rows = dataset.write(f"{folder}/in.zarr")
        config = synchronous(f"{folder}/in.zarr", f"{folder}/out.zarr", seed=5, **sizes)
        run_with_ties(config, bits)
        assert_rows_in_order(config.target, rows, row_order(dataset.n, 5, bits=bits))
