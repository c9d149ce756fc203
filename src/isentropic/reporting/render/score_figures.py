"""Final scores as pictures: every seed, the mean and its interval."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from isentropic.reporting.analysis.estimate import FEW
from isentropic.reporting.analysis.groups import Group
from isentropic.reporting.analysis.scores import Score, title
from isentropic.reporting.render.curve_figures import Drawing, Picture
from isentropic.reporting.render.style import canvas, frame, plain, save, style


def score_pictures(groups: Sequence[Group], scores: Sequence[Score], folder: Path) -> list[Drawing]:
    styles = {id(group): style(index) for index, group in enumerate(groups)}
    found: list[Drawing] = []
    for metric in dict.fromkeys(score.metric for score in scores):
        rows = [score for score in scores if score.metric == metric and id(score.group) in styles]
        if rows:
            found.append(partial(_points, metric, rows, styles, folder))
    return found


def _points(metric: str, rows: list[Score], styles: dict[int, Any], folder: Path) -> Picture:
    figure = canvas(8, 0.9 + 0.42 * len(rows))
    (axis,) = figure.subplots(1, 1, squeeze=False).flat
    for height, score in enumerate(rows):
        colour, _, marker = styles[id(score.group)]
        point, low, high, size = score.estimate
        if size >= FEW:
            axis.plot([low, high], [height, height], color=colour, linewidth=6, alpha=0.35, solid_capstyle="butt")
        if size > 1:
            axis.plot([point, point], [height - 0.25, height + 0.25], color=colour, linewidth=2)
        axis.plot(
            score.values,
            np.full(size, height),
            linestyle="none",
            marker=marker,
            markersize=5,
            color=colour,
            mfc="white",
        )
    axis.set_yticks(range(len(rows)), [f"{plain(s.group.label, 40)} (n = {s.estimate.size})" for s in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    frame(axis, f"{title(metric)}: every seed")
    words = [_told(score) for score in rows]
    note = "A marker is one seed, the tick the mean, the bar its 95 % t interval, from 3 seeds on."
    return _saved(figure, folder, f"final_{_name(metric)}", f"Final {title(metric)}", words, note, metric)


def _saved(figure: Any, folder: Path, name: str, head: str, words: list[str], note: str, metric: str) -> Picture:
    save(figure, folder, name)
    return Picture(name, head, f"{head}: {'; '.join(words)}.", note, metric, "")


def _told(score: Score) -> str:
    point, low, high, size = score.estimate
    interval = f", 95 % interval {low:.3g} to {high:.3g}" if size >= FEW else ""
    return f"{score.group.label} {point:.3g}{interval}, {size} seed{'s' if size > 1 else ''}"


def _name(metric: str) -> str:
    return metric.removeprefix("eval/").replace("/", "_").replace("@", "_at_")
