"""The demo's picture: the labels along a dataset, before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

CAT, DOG = "#466edc", "#f09628"
BLOCK_ROWS = 1_000


def draw_labels(path: Path, before: NDArray[np.int8], after: NDArray[np.int8]) -> None:
    """Write a PNG that shows every label, and the share of dogs in blocks of `BLOCK_ROWS` rows, before and after.

    Parameters
    ----------
    path
        The PNG file.
    before, after
        Labels along the dataset, 0 cat, 1 dog; shape (rows,).
    """
    figure = Figure(figsize=(9, 4.6), dpi=120, layout="constrained")
    axes = figure.subplots(2, 2, sharex="col", width_ratios=(2, 3))
    for row, (name, labels) in enumerate((("before", before), ("after", after))):
        _draw_every_label(axes[row][0], name, labels)
        _draw_shares(axes[row][1], labels)
    axes[0][0].set_title("every row (read line by line)", fontsize=10)
    axes[0][1].set_title(f"share of dogs in blocks of {BLOCK_ROWS:,} rows", fontsize=10)
    axes[1][1].set_xlabel("row")
    FigureCanvasAgg(figure)  # the canvas that saves; pyplot would choose one for the whole process
    figure.savefig(path, format="png")


def _draw_every_label(axes: Any, name: str, labels: NDArray[np.int8]) -> None:
    width = max(1, int(np.sqrt(2 * labels.size)))
    image = np.full(-(-labels.size // width) * width, np.nan, "f4")
    image[: labels.size] = labels
    axes.imshow(
        image.reshape(-1, width),
        cmap=ListedColormap([CAT, DOG]),
        vmin=0,
        vmax=1,
        aspect="auto",
        interpolation="nearest",
    )
    axes.set(xticks=[], yticks=[])
    axes.set_ylabel(name)


def _draw_shares(axes: Any, labels: NDArray[np.int8]) -> None:
    starts = np.arange(0, labels.size, BLOCK_ROWS)
    shares = np.add.reduceat(labels.astype("f8"), starts) / np.diff(np.append(starts, labels.size))
    axes.step(starts + BLOCK_ROWS / 2, shares, where="mid", color=DOG, linewidth=1.2)
    axes.axhline(labels.mean(), color="0.4", linewidth=0.8, linestyle=":")
    axes.set_ylim(-0.05, 1.05)
    axes.set_yticks([0, 0.5, 1], ["all cats", "half", "all dogs"])
