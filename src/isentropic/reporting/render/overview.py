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
    TITLES,
    Drawing,
    Lines,
    Picture,
    Strays,
    draw_bands,
    draw_group,
    steady_targets,
    strays_of,
    told,
)
from isentropic.reporting.render.style import PANELS, canvas, frame, save
from isentropic.runs.run import Run

NAME = "overview"


def overview(groups: Sequence[Group], included: set[Path], lines: Lines, folder: Path) -> list[Drawing]:
    """Of many groups the lines alone, as seeds and bands would cover them. None where there is too little to see."""
    metrics = _metrics([run for group in groups for run in group.runs])
    return [partial(_drawn, metrics, groups, included, lines, folder)] if len(metrics) > 1 else []


def _drawn(metrics: list[str], groups: Sequence[Group], included: set[Path], lines: Lines, folder: Path) -> Picture:
    figure = canvas(10, 3.1 * -(-len(metrics) // 2))
    frames = list(figure.subplots(-(-len(metrics) // 2), 2, squeeze=False).flat)
    for spare in frames[len(metrics) :]:
        spare.set_visible(False)
    words = [
        _part(here, metric, groups, included, lines[metric, "rollouts"])
        for here, metric in zip(frames, metrics, strict=False)
    ]
    handles = {name: handle for here in frames for handle, name in zip(*here.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    save(figure, folder, NAME)
    note = "Thick: mean over seeds; band: its 95 % t interval, from 3 seeds on; thin: the seeds."
    if len(groups) > PANELS:
        note = "Means over seeds, without their intervals, which the pictures of each metric have."
    return Picture(NAME, "Overview", " ".join(words), note, "", "")


def _metrics(runs: list[Run]) -> list[str]:
    scores = sorted({name for run in runs for name in run.scores})
    first = [next((name for name in scores if name.startswith(kind)), "") for kind in ("eval/avg@", "eval/pass@")]
    logged = [name for name in ("entropy/mean", "rollout/reward") if any(name in run.metrics for run in runs)]
    return [*logged, *filter(None, first)]


def _part(axis: Any, metric: str, groups: Sequence[Group], included: set[Path], lines: list[Line | None]) -> str:
    """Draws it, and says what it shows."""
    runs = [run for group in groups for run in group.runs]
    strays = [strays_of(group, included, metric, "rollouts") for group in groups]
    targets = steady_targets(runs) if metric == "entropy/mean" else []
    for index, (drawn, stray) in enumerate(zip(lines, strays, strict=True)):
        if len(groups) <= PANELS:
            draw_group(axis, index, drawn, stray, metric)
        elif drawn is not None:
            nothing = np.full(len(drawn.place), np.nan)
            draw_group(
                axis, index, replace(drawn, low=nothing, high=nothing, seeds=[]), Strays(stray.group, []), metric
            )
    title = TITLES.get(metric, f"{metric.removeprefix('eval/')} on held-out problems")
    frame(axis, title, "rollouts")
    draw_bands(axis, targets)
    axis.set_ylim(bottom=min(0, axis.get_ylim()[0]) if metric == "rollout/reward" else 0)
    return told(title, "rollouts", lines, strays, targets)
