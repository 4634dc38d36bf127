"""The options of a request, defined once: `run` and `plan` take the same."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

EXPERT = "Expert"
OUTPUT = "Output"
RESOURCES = "Resources"


def _option(
    flag: str, text: str, *, panel: str = "Order", default: str | bool = True, metavar: str | None = None
) -> Any:
    return typer.Option(flag, help=text, rich_help_panel=panel, show_default=default, metavar=metavar)


def request_fields(
    source: Annotated[
        str, typer.Argument(help="Zarr array or group to read, format 2 or 3.", metavar="SOURCE", show_default=False)
    ],
    target: Annotated[str, typer.Argument(help="Zarr array or group to write.", metavar="TARGET", show_default=False)],
    *,
    seed: Annotated[int, _option("--seed", "Seed of the order, 0 to 2^64 - 1.")] = 0,
    epoch: Annotated[
        int, _option("--epoch", "Epoch of the order, 0 to 2^32 - 1: another order under the same seed.")
    ] = 0,
    row_dim: Annotated[
        str | None, _option("--row-dim", "Name of the row dimension.", default="the only candidate", metavar="NAME")
    ] = None,
    memory: Annotated[
        str | None,
        _option(
            "--memory",
            'Data buffers of all local workers together, as bytes or with a unit: "512 MiB", "4GB", "1e9". '
            "Comes on top of about 200 MiB for each interpreter.",
            panel=RESOURCES,
            default="60% of what is available",
            metavar="SIZE",
        ),
    ] = None,
    workers: Annotated[
        int | None, _option("--workers", "Local worker processes.", panel=RESOURCES, default="one a core", metavar="N")
    ] = None,
    scheduler: Annotated[
        str | None,
        _option(
            "--scheduler",
            "Address of a Dask scheduler, such as tcp://host:8786, whose workers' own limits count; "
            'or "synchronous" for one thread.',
            panel=RESOURCES,
            default="a local cluster",
            metavar="ADDRESS",
        ),
    ] = None,
    work_dir: Annotated[
        str | None,
        _option(
            "--work-dir", "Directory for piles and records.", panel=RESOURCES, default="TARGET.work", metavar="DIR"
        ),
    ] = None,
    chunk_rows: Annotated[
        int | None,
        _option("--chunk-rows", "Rows in a chunk of the target.", panel=OUTPUT, default="the source's", metavar="N"),
    ] = None,
    shard_rows: Annotated[
        int | None,
        _option(
            "--shard-rows",
            "Rows in a shard of the target, a multiple of the chunk's.",
            panel=OUTPUT,
            default="the source's",
            metavar="N",
        ),
    ] = None,
    codec: Annotated[
        str | None,
        _option(
            "--codec",
            "Codec of the target: blosc:zstd:1, zstd:3, gzip:5, none.",
            panel=OUTPUT,
            default="the source's",
            metavar="CODEC",
        ),
    ] = None,
    zarr_format: Annotated[
        int | None,
        _option(
            "--zarr-format", "Zarr format of the target, 2 or 3.", panel=OUTPUT, default="the source's", metavar="2|3"
        ),
    ] = None,
    keep_piles: Annotated[
        bool, _option("--keep-piles", "Keep the piles after the commit.", panel=OUTPUT, default="off")
    ] = False,
    overwrite: Annotated[
        bool,
        _option(
            "--overwrite", "Replace an existing target, once the new one is complete.", panel=OUTPUT, default="off"
        ),
    ] = False,
    verify_readback: Annotated[
        bool,
        _option("--verify-readback", "Read the whole target again before the commit.", panel=OUTPUT, default="off"),
    ] = False,
    performance_report: Annotated[
        str | None,
        _option(
            "--performance-report",
            "Write Dask's performance report to this HTML file.",
            panel=OUTPUT,
            default="none",
            metavar="FILE",
        ),
    ] = None,
    pile_rows: Annotated[
        int | None, _option("--pile-rows", "Rows in a pile.", panel=EXPERT, default="planned from memory", metavar="N")
    ] = None,
    scatter_rows: Annotated[
        int | None,
        _option(
            "--scatter-rows", "Source rows in a scatter task.", panel=EXPERT, default="planned from memory", metavar="N"
        ),
    ] = None,
    levels: Annotated[
        int | None,
        _option("--levels", "Scatter levels, 0 (all in memory) to 4.", panel=EXPERT, default="planned", metavar="N"),
    ] = None,
) -> None:
    """Carry, in its signature, the options of a request; it is never called."""


AsJson = Annotated[
    bool,
    _option(
        "--json", "Print one JSON document on standard output, and nothing else there.", panel=OUTPUT, default="off"
    ),
]
Direct = Annotated[
    bool,
    _option(
        "--direct", "Run the engine without Prefect: the same result.", panel=RESOURCES, default="off: the Prefect flow"
    ),
]


def takes_request(command: Callable[..., int]) -> Callable[..., int]:
    """Give `command`, whose first parameter is a mapping of request fields, the options of a request."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    hints = get_type_hints(request_fields, include_extras=True)
    fields = [p.replace(annotation=hints[name]) for name, p in inspect.signature(request_fields).parameters.items()]
    names = [p.name for p in fields]

    @functools.wraps(command)
    def wrapper(**values: Any) -> int:
        return command({name: values.pop(name) for name in names}, **values)

    parameters = [*fields, *own]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    del wrapper.__wrapped__  # typer would read the signature of `command`
    return wrapper
