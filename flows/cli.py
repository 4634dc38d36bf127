"""The command `pileshuffle`.

Prefect is imported only by a run without `--direct`; Dask and Zarr only when a command needs them.
"""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Annotated, Any

import typer
from rich.console import Console

from flows import outcome
from flows.options import AsJson, Direct, takes_request

app = typer.Typer(
    name="pileshuffle",
    help="Put the rows of a Zarr dataset larger than memory into a uniformly random order, exactly.\n\n"
    "Exit codes: 0 done, 1 a check or the run failed, 2 the request is wrong, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Target = Annotated[
    str, typer.Argument(help="Zarr array or group that pileshuffle wrote.", metavar="TARGET", show_default=False)
]


def _read_version() -> str:
    try:
        return importlib.metadata.version("pileshuffle")
    except importlib.metadata.PackageNotFoundError:
        return "unknown: pileshuffle is not installed"


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - a callback of typer
    if wanted:
        typer.echo(_read_version())
        raise typer.Exit


@app.callback()
def common(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options of all commands; the help text is the application's."""


@app.command()
@takes_request
def run(fields: dict[str, Any], *, direct: Direct = False, as_json: AsJson = False) -> int:
    """Shuffle SOURCE into TARGET. Repeating a finished request does nothing; an interrupted one resumes."""

    def find_answer(console: Console) -> outcome.Answer:
        from flows.running import run_request
        from flows.show import show_report
        from shuffle_tasks.planning.config import make_config

        report = run_request(make_config(**fields), console, direct=direct).to_dict()
        return outcome.Answer(report, lambda out: show_report(out, report))

    return outcome.deliver(find_answer, as_json=as_json)


@app.command()
@takes_request
def plan(fields: dict[str, Any], *, as_json: AsJson = False) -> int:
    """Show what `run` with the same options would do. Nothing is read but metadata, and nothing is written."""

    def find_answer(_console: Console) -> outcome.Answer:
        from flows.show import show_plan
        from shuffle_tasks import plan_shuffle
        from shuffle_tasks.planning.config import make_config

        found = plan_shuffle(make_config(**fields)).to_dict()
        return outcome.Answer(found, lambda out: show_plan(out, found))

    return outcome.deliver(find_answer, as_json=as_json)


@app.command()
def verify(
    target: Target,
    *,
    source: Annotated[
        str | None,
        typer.Option(
            "--source", help="Compare with this source too.", show_default="the record alone", metavar="SOURCE"
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Read TARGET again and check it against its provenance record.

    Any changed, lost, repeated or misplaced row fails, and the check that found it is named.
    """

    def find_answer(_console: Console) -> outcome.Answer:
        from flows.show import show_checks
        from shuffle_tasks import verify as verify_target

        report = verify_target(target, source).to_dict()
        return outcome.Answer(report, lambda out: show_checks(out, report), ok=bool(report["ok"]))

    return outcome.deliver(find_answer, as_json=as_json)


@app.command()
def provenance(target: Target, *, as_json: AsJson = False) -> int:
    """Show the provenance record of TARGET; with --json as it is."""

    def find_answer(_console: Console) -> outcome.Answer:
        from flows.show import show_record
        from shuffle_tasks.provenance import read_provenance

        record = read_provenance(target)
        return outcome.Answer(record, lambda out: show_record(out, record))

    return outcome.deliver(find_answer, as_json=as_json)


@app.command()
def demo(
    directory: Annotated[
        str, typer.Argument(help="Directory for the data, the result and the picture.", metavar="[DIR]")
    ] = "pileshuffle-demo",
    *,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what an earlier demo left in DIR.", show_default="off")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Shuffle 50,000 cats followed by 50,000 dogs, and show the labels before and after."""

    def find_answer(console: Console) -> outcome.Answer:
        from flows.demo import run_demo, show_demo

        found = run_demo(directory, console, overwrite=overwrite)
        return outcome.Answer(found.to_dict(), lambda out: show_demo(out, found))

    return outcome.deliver(find_answer, as_json=as_json)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = app(given, prog_name="pileshuffle", standalone_mode=False)
    except KeyboardInterrupt:
        code = outcome.INTERRUPTED
    except Exception as error:
        # Usage errors of click, which typer may carry under another name: known by what they can do.
        if not hasattr(error, "format_message"):
            raise
        code = _refuse_usage(error, as_json="--json" in given)
    sys.exit(code)


def _refuse_usage(error: Any, *, as_json: bool) -> int:
    from typer.rich_utils import rich_format_error

    rich_format_error(error)
    if as_json:
        outcome.print_error_document(outcome.REFUSED, "UsageError", error.format_message(), sys.stdout)
    return outcome.REFUSED
