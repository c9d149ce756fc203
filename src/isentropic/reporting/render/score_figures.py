"""Final scores as pictures: points and intervals, performance profiles, probabilities of improvement."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from isentropic.reporting.analysis.bootstrap import FEW
from isentropic.reporting.analysis.groups import Group
from isentropic.reporting.analysis.scores import Score, profile, title
from isentropic.reporting.analysis.significance import Comparison
from isentropic.reporting.render.curve_figures import Drawing, Picture
from isentropic.reporting.render.style import canvas, frame, plain, save, style


def score_pictures(
    groups: Sequence[Group], scores: Sequence[Score], compared: Sequence[Comparison], folder: Path
) -> list[Drawing]:
    styles = {id(group): style(index) for index, group in enumerate(groups)}
    found: list[Drawing] = []
    for metric in dict.fromkeys(score.metric for score in scores):
        rows = [score for score in scores if score.metric == metric and id(score.group) in styles]
        pairs = [pair for pair in compared if pair.metric == metric and pair.probability.size >= FEW]
        if not rows:
            continue
        found.append(partial(_points, metric, rows, styles, folder))
        if any(score.estimate.size >= FEW for score in rows) and len(rows) > 1:
            found.append(partial(_profiles, metric, rows, styles, folder))
        if pairs:
            found.append(partial(_improvements, metric, pairs[:15], folder))
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
    note = (
        "A marker is one seed, the tick the interquartile mean (of up to 3 seeds the mean), the bar its 95 % bootstrap"
        " interval, from 3 seeds on."
    )
    return _saved(figure, folder, f"final_{_name(metric)}", f"Final {title(metric)}", words, note, metric)


def _profiles(metric: str, rows: list[Score], styles: dict[int, Any], folder: Path) -> Picture:
    figure = canvas(8, 4)
    (axis,) = figure.subplots(1, 1, squeeze=False).flat
    every = np.concatenate([score.values for score in rows])
    edge = 0.05 * (np.ptp(every) or 1)
    thresholds = np.linspace(every.min() - edge, every.max() + edge, 200)
    for score in rows:
        if score.estimate.size >= FEW:
            colour, dash, _ = styles[id(score.group)]
            label = f"{plain(score.group.label)} (n = {score.estimate.size})"
            axis.step(thresholds, profile(score.values, thresholds), color=colour, linestyle=dash, label=label)
    frame(axis, f"performance profile of {title(metric)}", f"threshold of {title(metric)}", "share of runs above it")
    axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    words = [f"half of the runs of {s.group.label} are above {np.median(s.values):.3g}" for s in rows]
    note = "Where one line lies right of another throughout, its group is better at every threshold."
    return _saved(
        figure, folder, f"profile_{_name(metric)}", f"Performance profile, {title(metric)}", words, note, metric
    )


def _improvements(metric: str, pairs: list[Comparison], folder: Path) -> Picture:
    figure = canvas(8, 1.0 + 0.42 * len(pairs))
    (axis,) = figure.subplots(1, 1, squeeze=False).flat
    for height, pair in enumerate(pairs):
        point, low, high, _ = pair.probability
        axis.plot([low, high], [height, height], color="#0072B2", linewidth=6, alpha=0.35, solid_capstyle="butt")
        axis.plot([point], [height], color="#0072B2", marker="o", markersize=5)
    axis.axvline(0.5, color="0.4", linewidth=0.8, linestyle=(0, (2, 2)))
    axis.set_yticks(range(len(pairs)), [f"{plain(p.ours.label, 30)} > {plain(p.theirs.label, 30)}" for p in pairs])
    axis.set_ylim(len(pairs) - 0.5, -0.5)
    axis.set_xlim(-0.02, 1.02)
    frame(axis, f"probability that a run of the first group has the higher {title(metric)}")
    words = [
        f"{pair.ours.label} over {pair.theirs.label} {pair.probability.point:.2f} ({pair.probability.low:.2f} to"
        f" {pair.probability.high:.2f})"
        for pair in pairs
    ]
    note = "Bar: 95 % bootstrap interval. Seeds are not paired here; an interval that holds 0.5 decides nothing."
    name = f"improvement_{_name(metric)}"
    return _saved(figure, folder, name, f"Probability of improvement, {title(metric)}", words, note, metric)


def _saved(figure: Any, folder: Path, name: str, head: str, words: list[str], note: str, metric: str) -> Picture:
    save(figure, folder, name)
    return Picture(name, head, f"{head}: {'; '.join(words)}.", note, metric, "")


def _told(score: Score) -> str:
    point, low, high, size = score.estimate
    interval = f", 95 % interval {low:.3g} to {high:.3g}" if size >= FEW else ""
    return f"{score.group.label} {point:.3g}{interval}, {size} seed{'s' if size > 1 else ''}"


def _name(metric: str) -> str:
    return metric.removeprefix("eval/").replace("/", "_").replace("@", "_at_")
