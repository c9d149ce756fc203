"""Final scores as pictures: differences from the reference, every seed with means and intervals, pass@k over k."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from isentropic.reporting.analysis.estimate import FEW
from isentropic.reporting.analysis.groups import Group
from isentropic.reporting.analysis.scores import Score, title
from isentropic.reporting.analysis.significance import Comparison
from isentropic.reporting.render.curve_figures import Drawing, Picture
from isentropic.reporting.render.style import (
    WIDE,
    End,
    Style,
    canvas,
    frame,
    label_ends,
    plain,
    save,
    single,
    styles,
)

HEADLINE = "headline"
AT_K = re.compile(r"(eval/(?:.*/)?)pass@(\d+)")
SEVERAL = 3  # values of k that make a curve


def headline(pairs: Sequence[Comparison], looks: dict[int, Style], folder: Path) -> list[Drawing]:
    """The picture that says it: what each group is away from the reference, by one score, where there is any."""
    return [partial(_differences, list(pairs), looks, folder)] if pairs else []


def score_pictures(
    groups: Sequence[Group], scores: Sequence[Score], folder: Path, looks: Sequence[Style] | None = None
) -> list[Drawing]:
    """Scores that are the same in all runs are left out."""
    told = dict(zip(map(id, groups), looks or styles(len(groups)), strict=True))
    found: list[Drawing] = []
    curves, covered = at_k(scores), inner(scores)
    for metric in dict.fromkeys(score.metric for score in scores):
        rows = [score for score in scores if score.metric == metric and id(score.group) in told]
        if rows and not same(rows) and metric not in covered:
            found.append(partial(_points, metric, rows, told, folder))
    for start, ks in curves.items():
        rows = [score for score in scores if score.metric in ks.values() and id(score.group) in told]
        if not same(rows):
            found.append(partial(_over_k, start, ks, rows, told, folder))
    return found


def same(rows: Sequence[Score]) -> bool:
    values = np.concatenate([score.values for score in rows])
    return len(values) > 1 and bool(np.ptp(values) <= 1e-12)


def at_k(scores: Sequence[Score]) -> dict[str, dict[int, str]]:
    """What stands before pass@k → k → the metric, where there are enough for a curve."""
    found: dict[str, dict[int, str]] = {}
    for metric in dict.fromkeys(score.metric for score in scores):
        if match := AT_K.fullmatch(metric):
            found.setdefault(match[1], {})[int(match[2])] = metric
    return {start: dict(sorted(ks.items())) for start, ks in found.items() if len(ks) >= SEVERAL}


def inner(scores: Sequence[Score]) -> set[str]:
    """Metrics that a curve over k shows, but for that of the largest k."""
    return {metric for ks in at_k(scores).values() for metric in list(ks.values())[:-1]}


def _differences(pairs: list[Comparison], looks: dict[int, Style], folder: Path) -> Picture:
    pairs = sorted(pairs, key=lambda pair: -pair.difference.point)
    figure = canvas(WIDE, 0.75 + 0.2 * len(pairs))
    axis: Any = figure.subplots(1, 1)
    for height, pair in enumerate(pairs):
        look, (point, low, high, _) = looks[id(pair.ours)], pair.difference
        axis.plot([low, high], [height, height], color=look.colour, linewidth=1.8, solid_capstyle="butt")
        axis.plot([point], [height], color=look.colour, marker=look.marker, markersize=4.5)
        axis.annotate(
            f"{point:+.3f}", (1.02, height), xycoords=("axes fraction", "data"),
            va="center", fontsize=7.5, annotation_clip=False,
        )  # fmt: skip
    axis.axvline(0, color="0.4", linewidth=0.8, linestyle=(0, (2, 2)))
    axis.set_yticks(range(len(pairs)), [plain(pair.ours.label, 22) for pair in pairs])
    axis.set_ylim(len(pairs) - 0.5, -0.5)
    score, base = title(pairs[0].metric), pairs[0].theirs.label
    frame(axis, "", f"{score}: difference from {plain(base, 26)}")
    axis.grid(axis="y", visible=False)
    words = [f"{pair.ours.label} {pair.change}" for pair in pairs]
    among = max(pair.among for pair in pairs)
    note = (
        f"Mean difference and its 95 % t interval, before correction for {among} comparison{'s' if among > 1 else ''}."
    )
    return _saved(figure, folder, HEADLINE, f"{score} against {base}", words, note, "")


def _points(metric: str, rows: list[Score], looks: dict[int, Style], folder: Path) -> Picture:
    figure = canvas(WIDE, 0.75 + 0.2 * len(rows))
    axis: Any = figure.subplots(1, 1)
    for height, score in enumerate(rows):
        look = looks[id(score.group)]
        point, low, high, size = score.estimate
        if low == low:
            axis.plot([low, high], [height, height], color=look.colour, linewidth=5, alpha=0.3, solid_capstyle="butt")
        if size > 1:
            axis.plot([point, point], [height - 0.3, height + 0.3], color=look.colour, linewidth=2)
        level = np.full(size, height)
        axis.plot(score.values, level, ls="none", marker=look.marker, markersize=3.5, color=look.colour, mfc="white")
        axis.annotate(f"{point:.3f}", (1.02, height), xycoords=("axes fraction", "data"), va="center", fontsize=7.5)
    axis.set_yticks(range(len(rows)), [f"{plain(s.group.label, 22)} (n = {s.estimate.size})" for s in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    frame(axis, "", title(metric))  # below, where there is room: over the frame a long name would be cut off
    axis.grid(axis="y", visible=False)
    words = [_told(score) for score in rows]
    note = "A marker is one seed, the tick and the number the mean, the bar its 95 % t interval, from 3 seeds on."
    return _saved(figure, folder, f"final_{_name(metric)}", f"Final {title(metric)}", words, note, metric)


def _over_k(start: str, ks: dict[int, str], rows: list[Score], looks: dict[int, Style], folder: Path) -> Picture:
    groups = {id(score.group): score.group for score in rows}
    figure, axis = single(len(groups))
    ends: list[End] = []
    words: list[str] = []
    for key, group in sorted(groups.items(), key=lambda one: not looks[one[0]].quiet):
        look, own = looks[key], {score.metric: score.estimate for score in rows if score.group is group}
        along = [k for k, metric in ks.items() if metric in own]
        point, low, high, size = zip(*(own[ks[k]] for k in along), strict=True)
        if not look.quiet:
            axis.fill_between(along, low, high, color=look.colour, alpha=0.18, linewidth=0)
        axis.plot(along, point, color=look.colour, linestyle=look.dash, marker=look.marker, markersize=2.5)
        ends.append(End(point[-1], f"{plain(group.label, 24)} (n = {size[-1]})", "0.4" if look.quiet else look.colour))
        words.append(f"{group.label} from {point[0]:.3g} at {along[0]} to {point[-1]:.3g} at {along[-1]}")
    axis.set_xscale("log", base=2)
    axis.set_xticks(list(ks), map(str, ks))
    before = start.removeprefix("eval/").rstrip("/")
    frame(axis, f"{before} pass@k".strip(), "k: answers of which one must be right")
    label_ends(axis, ends, figure.get_figheight() - 0.8)
    name = f"pass_at_k_{_name(before)}" if before else "pass_at_k"
    note = "Means over seeds at the end of training; bands: 95 % t intervals, from 3 seeds on."
    return _saved(figure, folder, name, f"{before} pass@k over k".strip(), words, note, f"{start}pass@k")


def _saved(figure: Any, folder: Path, name: str, head: str, words: list[str], note: str, metric: str) -> Picture:
    save(figure, folder, name)
    return Picture(name, head, f"{head}: {'; '.join(words)}.", note, metric, "")


def _told(score: Score) -> str:
    point, low, high, size = score.estimate
    interval = f", 95 % interval {low:.3g} to {high:.3g}" if size >= FEW else ""
    return f"{score.group.label} {point:.3g}{interval}, {size} seed{'s' if size > 1 else ''}"


def _name(metric: str) -> str:
    return metric.removeprefix("eval/").replace("/", "_").replace("@", "_at_")
