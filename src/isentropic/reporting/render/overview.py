"""The four pictures that one looks at first, as one: entropy, reward, accuracy, pass@k."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from isentropic.reporting.analysis.groups import Group
from isentropic.reporting.analysis.learning_curves import Line
from isentropic.reporting.render.curve_figures import (
    Drawing,
    Lines,
    Picture,
    Strays,
    draw_bands,
    draw_group,
    silent,
    steady_targets,
    strays_of,
    title_of,
    told,
)
from isentropic.reporting.render.style import COLOURED, LINE, WIDE, End, Style, canvas, frame, label_ends, save, styles
from isentropic.runs.run import Run

NAME = "overview"


def overview(
    groups: Sequence[Group], included: set[Path], lines: Lines, folder: Path, looks: Sequence[Style] | None = None
) -> list[Drawing]:
    """Of many groups the lines alone, as seeds and bands would cover them. None where there is too little to see."""
    metrics = [
        metric
        for metric in _metrics([run for group in groups for run in group.runs])
        if not silent(lines[metric, "rollouts"])
        and any(one and len(one.place) > 1 for one in lines[metric, "rollouts"])
    ]
    looks = looks or styles(len(groups))
    return [partial(_drawn, metrics, groups, included, lines, looks, folder)] if len(metrics) > 1 else []


def _drawn(
    metrics: list[str],
    groups: Sequence[Group],
    included: set[Path],
    lines: Lines,
    looks: Sequence[Style],
    folder: Path,
) -> Picture:
    rows = -(-len(metrics) // 2)
    figure = canvas(1.8 * WIDE, rows * max(2.3, 0.75 + LINE * len(groups)))
    frames = list(figure.subplots(-(-len(metrics) // 2), 2, squeeze=False).flat)
    for spare in frames[len(metrics) :]:
        spare.set_visible(False)
    words: list[str] = []
    for number, (here, metric) in enumerate(zip(frames, metrics, strict=False), start=1):
        ends, sentence = _part(here, metric, groups, included, lines[metric, "rollouts"], looks)
        words.append(sentence)
        if number == len(metrics):  # one frame names the curves of all
            label_ends(here, ends, figure.get_figheight() / rows - 0.7)
    save(figure, folder, NAME)
    note = "Thick: mean over seeds; band: its 95 % t interval, from 3 seeds on; thin: the seeds."
    if any(look.quiet for look in looks) or len(groups) > COLOURED:
        note = "Means over seeds, without their intervals, which the pictures of each metric have."
    return Picture(NAME, "Overview", " ".join(words), note, "", "")


def _metrics(runs: list[Run]) -> list[str]:
    scores = sorted({name for run in runs for name in run.scores}, key=lambda name: (len(name), name))
    kinds = ([name for name in scores if name.startswith(kind)] for kind in ("eval/avg@", "eval/pass@"))
    first = [(some or [""])[-1] for some in kinds]  # of several, by the largest k
    logged = [name for name in ("entropy/mean", "rollout/reward") if any(name in run.metrics for run in runs)]
    return [*logged, *filter(None, first)]


def _part(
    axis: Any,
    metric: str,
    groups: Sequence[Group],
    included: set[Path],
    lines: list[Line | None],
    looks: Sequence[Style],
) -> tuple[list[End], str]:
    """Draws it, and says what it shows."""
    runs = [run for group in groups for run in group.runs]
    strays = [strays_of(group, included, metric, "rollouts") for group in groups]
    targets = steady_targets(runs) if metric == "entropy/mean" else []
    ends: list[End] = []
    for look, drawn, stray in sorted(zip(looks, lines, strays, strict=True), key=lambda one: not one[0].quiet):
        if len(groups) <= COLOURED:
            ends += draw_group(axis, look, drawn, stray, metric)
        elif drawn is not None:
            nothing = np.full(len(drawn.place), np.nan)
            alone = replace(drawn, low=nothing, high=nothing, seeds=[])
            ends += draw_group(axis, look, alone, Strays(stray.group, []), metric)
    title = title_of(metric)
    frame(axis, title, "rollouts")
    draw_bands(axis, targets)
    axis.set_ylim(bottom=min(0, axis.get_ylim()[0]) if metric == "rollout/reward" else 0)
    return ends, told(title, "rollouts", lines, strays, targets)
