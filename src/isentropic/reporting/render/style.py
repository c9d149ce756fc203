"""How pictures of a report look: colours and dashes that the colour-blind and a grey printer tell apart."""

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from isentropic.reporting.render.run_curves import COLOURS, DASHES, MARKERS

SHOWN = 40  # groups in pictures and comparisons
COLOURED = len(COLOURS)  # groups that colours tell apart; of more, the reference and what differs
WIDE, HIGH, DPI = 3.8, 2.6, 300  # inches: a column, so that letters can be read there and on a phone
LINE = 0.14  # inches from one label at a curve's end to the next
PACKED = 3  # of a PNG: half the time of the usual 6, and files a fiftieth larger
SETTINGS: Any = {
    "svg.fonttype": "none",  # text stays text: small, sharp and readable to screen readers
    "pdf.fonttype": 42,  # TrueType, as journals ask for
    "svg.hashsalt": "isentropic",  # the same picture is the same file
    "figure.autolayout": False,
    "figure.constrained_layout.use": False,  # but where a figure asks for it
    "font.family": ["DejaVu Sans", "sans-serif"],
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 8,
}


class Style(NamedTuple):
    colour: str
    dash: Any
    marker: str
    quiet: bool = False  # one of many in grey, without interval and seeds


QUIET = Style("0.62", "-", "o", True)
REFERENCE = Style("#1a1a1a", "-", "o")  # among many


class End(NamedTuple):
    """Of a curve: where its label belongs."""

    height: float
    label: str
    colour: str


def style(index: int) -> Style:
    colour, turn = index % len(COLOURS), index // len(COLOURS)
    return Style(COLOURS[colour], DASHES[(colour + turn) % len(DASHES)], MARKERS[(colour + 2 * turn) % len(MARKERS)])


def styles(count: int, coloured: Sequence[int] | None = None) -> list[Style]:
    """Of so many groups, the reference first: few are all in colour, of many it and those that differ are."""
    if count <= COLOURED or coloured is None:
        return [style(index) for index in range(count)]
    chosen = [index for index in coloured if index][:COLOURED]
    others = [style(chosen.index(index)) if index in chosen else QUIET for index in range(1, count)]
    return [REFERENCE, *others]


def canvas(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def single(ends: int = 0) -> tuple[Figure, Any]:
    """One frame, as high as so many labels at its side take."""
    figure = canvas(WIDE, max(HIGH, 0.8 + LINE * ends))
    return figure, figure.subplots(1, 1)


def label_ends(axis: Any, ends: Sequence[End], height: float) -> None:
    """Beside curves' ends, in their order and one under the other; `height` of the frame, in inches."""
    low, high = axis.get_ylim()
    wanted = sorted(((end.height - low) / ((high - low) or 1), end) for end in ends)
    step, places = LINE / height, list[float]()
    for place, _ in wanted:
        places.append(max(place, places[-1] + step) if places else place)
    top = 1 - step / 2  # below the title; what does not fit is pushed down again
    for index in range(len(places) - 1, -1, -1):
        places[index] = min(places[index], top)
        top = places[index] - step
    for place, (own, end) in zip(places, wanted, strict=True):
        axis.annotate(
            end.label, (1, own), (1.045, place), "axes fraction", va="center", fontsize=7.5, color=end.colour,
            annotation_clip=False, arrowprops={"arrowstyle": "-", "color": end.colour, "linewidth": 0.6, "shrinkA": 0,
            "shrinkB": 0, "relpos": (0, 0.5)},
        )  # fmt: skip


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
            figure.set_layout_engine(None)  # or each file would be laid out anew; with "none", drawn twice
        figure.savefig(folder / f"{name}.png", pil_kwargs={"compress_level": PACKED})
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
