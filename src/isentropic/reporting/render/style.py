"""How pictures of a report look: colours and dashes that the colour-blind and a grey printer tell apart."""

import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from isentropic.reporting.render.run_curves import COLOURS, DASHES, MARKERS

STYLES = 16  # that can be told apart, and panels that make a square
PANELS = 6  # groups up to which one frame holds all; more get a panel each
PACKED = 3  # of a PNG: half the time of the usual 6, and files a fiftieth larger
SETTINGS: Any = {
    "svg.fonttype": "none",  # text stays text: small, sharp and readable to screen readers
    "svg.hashsalt": "isentropic",  # the same picture is the same file
    "font.family": ["DejaVu Sans", "sans-serif"],
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
}


class Style(NamedTuple):
    colour: str
    dash: Any
    marker: str


def style(index: int) -> Style:
    colour, turn = index % len(COLOURS), index // len(COLOURS)
    return Style(COLOURS[colour], DASHES[(colour + turn) % len(DASHES)], MARKERS[(colour + 2 * turn) % len(MARKERS)])


def canvas(width: float, height: float, by_hand: bool = False) -> Figure:
    figure = Figure(figsize=(width, height), dpi=150, layout=None if by_hand else "constrained")
    FigureCanvasAgg(figure)
    return figure


def single() -> tuple[Figure, list[Any]]:
    figure = canvas(8, 4)
    return figure, list(figure.subplots(1, 1, squeeze=False).flat)


def panels(count: int) -> tuple[Figure, list[Any]]:
    """So many frames of one scale; the last row may be shorter. Laid out by hand, which is much faster."""
    columns = min(count, 4 if count > 9 else 3)
    rows = -(-count // columns)
    height = 2.1 * rows + 0.8
    figure = canvas(10, height, by_hand=True)
    figure.subplots_adjust(0.05, 0.55 / height, 0.99, 1 - 0.65 / height, wspace=0.1, hspace=0.3)
    grid = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    for spare in grid[count:]:
        spare.set_visible(False)
    grid[0].locator_params(nbins=4)  # of all, as they share their axes
    return figure, grid[:count]


def frame(axis: Any, title: str = "", across: str = "", up: str = "") -> None:
    axis.set_title(title, loc="left")
    axis.set_xlabel(across)
    axis.set_ylabel(up)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)


def bundle(axis: Any, lines: Iterable[tuple[np.ndarray, np.ndarray]], colour: str, **looks: Any) -> None:
    """Many thin lines as one, which draws much faster."""
    axis.add_collection(LineCollection([np.column_stack(line) for line in lines], colors=colour, **looks))
    axis.autoscale(None)  # once all is drawn; at once, each of many frames of one scale would go through all


def plain(label: str, width: int = 34) -> str:
    """As it is: matplotlib would read $ as mathematics and hide what begins with an underscore."""
    text = "\n".join(textwrap.wrap(label, width)) or " "
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def save(figure: Figure, folder: Path, name: str) -> None:
    with matplotlib.rc_context(SETTINGS):
        if engine := figure.get_layout_engine():
            engine.execute(figure)
            figure.set_layout_engine("none")  # or every file would be laid out anew, which takes longer than drawing
        figure.savefig(folder / f"{name}.png", pil_kwargs={"compress_level": PACKED})
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
