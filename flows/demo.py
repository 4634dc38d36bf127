"""The story of the problem on generated data: all cats, then all dogs.

A model that is trained on such a dataset in order sees one class at a time.
"""

from __future__ import annotations

import shlex
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from shuffle_tasks.errors import RequestError

if TYPE_CHECKING:
    from shuffle_tasks.report import ShuffleReport

ROWS_PER_CLASS = 50_000
FEATURES = 32
CHUNK_ROWS = 1_000
PILE_ROWS = 10_000
"""Rows of a pile and of a scatter task: ten piles of ten segments; the planner would shuffle so few rows in memory."""

STRIP_CELLS = 64
MEMBERS = ("cats-then-dogs.zarr", "shuffled.zarr", "shuffled.zarr.work", "labels.png")


@dataclass(frozen=True)
class Demo:
    """What the demo did.

    Attributes
    ----------
    report : ShuffleReport
        Of the shuffle.
    source, picture : Path
        The generated dataset and the PNG.
    before, after : ndarray of int8, shape (rows,)
        The labels along source and target.
    """

    report: ShuffleReport
    source: Path
    picture: Path
    before: NDArray[np.int8]
    after: NDArray[np.int8]

    def to_dict(self) -> dict[str, Any]:
        """Return the demo as JSON values, with the share of dogs along the dataset before and after."""
        shares = {"dogs_before": self.before, "dogs_after": self.after}
        return {
            "source": str(self.source), "picture": str(self.picture), "report": self.report.to_dict(),
            **{name: share_of_dogs(labels, 10).tolist() for name, labels in shares.items()},
        }  # fmt: skip


def run_demo(directory: str, console: Console, *, overwrite: bool = False) -> Demo:
    """Make the data, shuffle it through the Prefect flow, and draw the picture.

    Parameters
    ----------
    directory
        Where to; made if it does not exist.
    console
        For progress.
    overwrite
        Remove what an earlier demo left there. Other files stay.

    Raises
    ------
    RequestError
        If the directory is not empty and `overwrite` is False.
    """
    from flows.picture import draw_labels
    from flows.running import run_flow
    from shuffle_tasks.planning.config import make_config

    place = _make_place(Path(directory).absolute(), overwrite=overwrite)
    source, target = place / MEMBERS[0], place / MEMBERS[1]
    console.print(f"writing {2 * ROWS_PER_CLASS:,} rows to {source}", highlight=False, soft_wrap=True)
    before = write_pets(source)
    config = make_config(source=source, target=target, pile_rows=PILE_ROWS, scatter_rows=PILE_ROWS)
    report = run_flow(config, console)
    after = read_labels(target)
    picture = place / MEMBERS[3]
    draw_labels(picture, before, after)
    return Demo(report, source, picture, before, after)


def _make_place(place: Path, *, overwrite: bool) -> Path:
    if place.exists() and not place.is_dir():
        raise RequestError(f"the demo needs a directory, and {place} is a file: choose another DIR")
    if place.is_dir() and any(place.iterdir()):
        if not overwrite:
            raise RequestError(
                f"{place} is not empty: choose another DIR, or replace what an earlier demo left with --overwrite"
            )
        for name in MEMBERS:
            member = place / name
            shutil.rmtree(member) if member.is_dir() else member.unlink(missing_ok=True)
    place.mkdir(parents=True, exist_ok=True)
    return place


def write_pets(path: Path, rows_per_class: int = ROWS_PER_CLASS) -> NDArray[np.int8]:
    """Write a Zarr 3 group of cats followed by dogs, ready for `xr.open_zarr`, and return its labels.

    The features are two clouds of waves, one around -1 and one around +1: no random numbers.
    """
    import zarr
    from zarr.errors import ZarrUserWarning

    labels = np.repeat(np.array([0, 1], "i1"), rows_per_class)
    phase = np.arange(labels.size, dtype="f8")[:, None] * np.linspace(0.1, 1.7, FEATURES)
    features = (2.0 * labels[:, None] - 1.0 + np.sin(phase)).astype("f4")
    group = zarr.create_group(path, zarr_format=3, attributes={"title": "cats, then dogs"})
    for name, values, dims in (("features", features, ("row", "feature")), ("label", labels, ("row",))):
        chunks = (CHUNK_ROWS, *values.shape[1:])
        group.create_array(name, data=values, chunks=chunks, dimension_names=dims)
    group["label"].attrs.update({"long_name": "kind of pet", "flag_values": [0, 1], "flag_meanings": "cat dog"})
    with warnings.catch_warnings():
        # zarr-python warns that format 3 does not specify consolidated metadata; xarray warns where there is none.
        warnings.filterwarnings("ignore", "Consolidated metadata is currently not part", ZarrUserWarning)
        zarr.consolidate_metadata(path, zarr_format=3)
    return labels


def read_labels(path: Path) -> NDArray[np.int8]:
    """Return all labels of a dataset of the demo."""
    import zarr

    return np.asarray(zarr.open_group(path, mode="r")["label"][:], "i1")  # type: ignore[index]  # an array, not a group


def share_of_dogs(labels: NDArray[np.int8], cells: int) -> NDArray[np.float64]:
    """Return the share of dogs in each of `cells` equal pieces of the dataset, rounded to percent."""
    return np.array([piece.mean() for piece in np.array_split(labels, cells)]).round(2)


def draw_strip(labels: NDArray[np.int8], cells: int = STRIP_CELLS, *, blocks: str = "░▒█") -> Text:
    """Return one line of text: the share of dogs along the dataset, as shade and as colour (blue cats, orange dogs)."""
    line = Text()
    for share in share_of_dogs(labels, cells):
        mixed = [round(cat + (dog - cat) * share) for cat, dog in zip((70, 110, 220), (240, 150, 40), strict=True)]
        line.append(blocks[round(share * (len(blocks) - 1))], style=f"rgb({mixed[0]},{mixed[1]},{mixed[2]})")
    return line


def show_demo(console: Console, demo: Demo) -> None:
    """Print the certificate, the labels before and after, and where everything is."""
    from flows.show import show_report

    blocks = "░▒█" if "utf" in console.encoding.lower() else ".:#"
    show_report(console, demo.report.to_dict())
    console.print(
        f"\nlabels along the dataset, first row to last: '{blocks[0]}' all cats, '{blocks[-1]}' all dogs",
        highlight=False,
    )
    for name, labels in (("before", demo.before), ("after", demo.after)):
        console.print(Text(f"{name:>6} |").append_text(draw_strip(labels, blocks=blocks)).append("|"))
    console.print(f"\npicture: {demo.picture}", highlight=False, soft_wrap=True)
    check = shlex.join(["pileshuffle", "verify", demo.report.target, "--source", str(demo.source)])
    console.print(f"check it: {check}", highlight=False, soft_wrap=True)
