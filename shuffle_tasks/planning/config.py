"""What a user asks for: one frozen, validated value whose fields are the long options of the command line."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from shuffle_tasks.errors import RequestError
from shuffle_tasks.planning.codec_choice import parse_codec
from shuffle_tasks.planning.sizes import parse_bytes


def _as_path_text(value: Any) -> Any:
    """Accept `pathlib.Path` where the field holds text."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _as_size(value: Any) -> Any:
    return parse_bytes(value) if isinstance(value, str) else value


def _checked_codec(value: str | None) -> str | None:
    if value is not None:
        parse_codec(value)
    return value


PathText = Annotated[str, BeforeValidator(_as_path_text), Field(min_length=1)]
Rows = Annotated[int, Field(ge=1, strict=True)]


class ShuffleConfig(BaseModel):
    """One request for a shuffle.

    Sizes are accepted as text ("512 MiB", "4GB", "1e9"). Two configurations that differ only in memory, workers,
    scheduler, work directory or reporting give the same bytes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: PathText = Field(description="Zarr array or group to read (format 2 or 3).")
    target: PathText = Field(description="Zarr array or group to write.")
    seed: int = Field(0, ge=0, le=2**64 - 1, description="Seed of the order, 0 <= seed < 2^64.")
    epoch: int = Field(0, ge=0, le=2**32 - 1, description="Epoch of the order, 0 <= epoch < 2^32.")
    memory: Annotated[int, BeforeValidator(_as_size), Field(ge=1)] | None = Field(
        None, description="Data buffers of all local workers together, in bytes; default: 60% of what is available."
    )
    workers: int | None = Field(None, ge=1, description="Local worker processes; default: one a core.")
    scheduler: str | None = Field(
        None, description='Address of a Dask scheduler, or "synchronous"; default: a local cluster.'
    )
    row_dim: str | None = Field(None, description="Name of the row dimension; default: the only candidate.")
    chunk_rows: Rows | None = Field(None, description="Rows a chunk of the target; default: the source's.")
    shard_rows: Rows | None = Field(None, description="Rows a shard of the target; default: the source's.")
    codec: Annotated[str, BeforeValidator(_checked_codec)] | None = Field(
        None,
        description='Codec of the target, such as "blosc:zstd:1", "zstd:3", "gzip:5", "none"; default: the source\'s.',
    )
    zarr_format: Literal[2, 3] | None = Field(None, description="Zarr format of the target; default: the source's.")
    work_dir: PathText | None = Field(None, description="Directory for piles and records; default: TARGET.work.")
    keep_piles: bool = Field(False, description="Keep the piles after the commit.")
    overwrite: bool = Field(False, description="Replace an existing target, after the new one is complete.")
    verify_readback: bool = Field(False, description="Read the whole target again before the commit.")
    performance_report: PathText | None = Field(None, description="Write Dask's performance report to this HTML file.")
    pile_rows: Rows | None = Field(None, description="Expert: rows a pile; default: planned from memory.")
    scatter_rows: Rows | None = Field(
        None, description="Expert: source rows a scatter task; default: planned from memory."
    )
    levels: int | None = Field(None, ge=0, le=4, description="Expert: scatter levels, 0 = in memory; default: planned.")

    @model_validator(mode="after")
    def _check_combinations(self) -> ShuffleConfig:
        if self.scheduler == "synchronous" and (self.workers or 1) != 1:
            raise ValueError('scheduler="synchronous" runs in one thread: leave `workers` out, or give 1')
        if self.scheduler not in (None, "synchronous") and "://" not in str(self.scheduler):
            raise ValueError(
                f'a scheduler is "synchronous" or an address such as tcp://host:8786; got {self.scheduler!r}'
            )
        if self.chunk_rows and self.shard_rows and self.shard_rows % self.chunk_rows:
            raise ValueError(
                f"shard_rows must be a multiple of chunk_rows; got {self.shard_rows} and {self.chunk_rows}"
            )
        return self


def make_config(**fields: Any) -> ShuffleConfig:
    """Return the configuration of these fields, with pydantic's complaints as one readable `RequestError`."""
    try:
        return ShuffleConfig(**fields)
    except ValidationError as error:
        lines = [
            f"{e['loc'][0]}: {e['msg']}, got {e['input']!r}" if e["loc"] else e["msg"]
            for e in error.errors(include_url=False)
        ]
        raise RequestError("the request is wrong: " + "; ".join(lines)) from error
