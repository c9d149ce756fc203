"""Learning curves as pictures: one metric over one axis, every group with its interval and its seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from isentropic.reporting.analysis.axes import AXES
from isentropic.reporting.analysis.groups import Group
from isentropic.reporting.analysis.learning_curves import Line, line, trace
from isentropic.reporting.analysis.smoothing import BAND
from isentropic.reporting.render.style import PANELS, SETTINGS, bundle, frame, panels, plain, save, single, style
from isentropic.runs.parallel import spread
from isentropic.runs.run import Run

TITLES = {
    "entropy/mean": "entropy (nats per token)",
    "rollout/length": "response length (tokens)",
    "rollout/reflection": "share of responses with a reflection marker",
    "rollout/reward": "reward",
}
EVERY_AXIS = ("entropy/mean", "rollout/reward")  # and evaluations; the others are drawn over rollouts alone
STRAY = "0.35"  # grey of runs that are in no mean


@dataclass(frozen=True)
class Picture:
    """The same drawing as `<name>.png` and `<name>.svg`."""

    name: str
    title: str
    alt: str  # says what there is to see, for those who do not see it
    note: str
    metric: str  # pictures of one metric over several axes belong together
    axis: str  # rollouts, tokens, seconds; empty where there is no such choice


@dataclass(frozen=True)
class Strays:
    """Runs of a group that are left out of its mean."""

    group: Group
    traces: list[tuple[np.ndarray, np.ndarray]]


Drawing = Callable[[], Picture]  # yet to be made
Lines = dict[tuple[str, str], list[Line | None]]  # by metric and axis: of each group


def draw(drawings: Sequence[Drawing], many: bool) -> list[Picture]:
    """`many`: whether it takes long enough for several processes."""
    return spread(_draw, drawings, chunk=1 if many else len(drawings) or 1)


def curve_lines(groups: Sequence[Group], included: set[Path]) -> Lines:
    """`included`: folders of the runs in the statistics."""
    runs = [run for group in groups for run in group.runs]
    kept = [[run for run in group.runs if run.folder in included] for group in groups]
    evaluations = sorted({name for run in runs for name in run.scores})
    return {
        (metric, axis): [line(group, some, metric, axis) for group, some in zip(groups, kept, strict=True)]
        for metric in (*evaluations, *(name for name in TITLES if any(name in run.metrics for run in runs)))
        for axis in (AXES if metric in EVERY_AXIS or metric in evaluations else ("rollouts",))
    }


def curve_pictures(groups: Sequence[Group], included: set[Path], lines: Lines, folder: Path) -> list[Drawing]:
    """Runs that are not included are drawn thin and grey, up to their end."""
    runs = [run for group in groups for run in group.runs]
    found: list[Drawing] = []
    for (metric, axis), drawn in lines.items():
        strays = [strays_of(group, included, metric, axis) for group in groups]
        if any(drawn) or any(one.traces for one in strays):
            targets = steady_targets(runs) if metric == "entropy/mean" else []
            found.append(partial(_drawn, metric, axis, drawn, strays, targets, folder))
    return found


def strays_of(group: Group, included: set[Path], metric: str, axis: str) -> Strays:
    out = [run for run in group.runs if run.folder not in included][:10]
    return Strays(group, [found for run in out if (found := trace(run, metric, axis)) is not None])


def _draw(drawing: Drawing) -> Picture:
    with matplotlib.rc_context(SETTINGS):
        return drawing()


def _drawn(
    metric: str, axis: str, lines: list[Line | None], strays: list[Strays], targets: list[float], folder: Path
) -> Picture:
    shown = [i for i in range(len(lines)) if lines[i] or strays[i].traces]
    title, across = TITLES.get(metric, f"{metric.removeprefix('eval/')} on held-out problems"), AXES[axis]
    together = len(shown) <= PANELS
    figure, frames = single() if together else panels(len(shown))
    for place, index in enumerate(shown):
        here = frames[0] if together else frames[place]
        if not together:
            _others(here, [lines[i] for i in shown if i != index])
        draw_group(here, index, lines[index], strays[index], metric)
    for here, index in zip(frames, shown, strict=False):
        frame(here, title if together else plain(strays[index].group.label, 30), across if together else "")
        draw_bands(here, targets)
        here.set_ylim(bottom=min(0, here.get_ylim()[0]) if metric == "rollout/reward" else 0)
    if together:
        frames[0].legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    else:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        figure.supxlabel(across, fontsize=9)
    name = f"{metric.replace('/', '_').replace('@', '_at_')}_{axis}"
    save(figure, folder, name)
    return Picture(
        name, f"{title}, over {across}", told(title, across, lines, strays, targets), _note(metric), metric, axis
    )


def draw_group(axis: Any, index: int, drawn: Line | None, strays: Strays, metric: str) -> None:
    colour, dash, marker = style(index)
    if drawn is not None:
        label = f"{plain(drawn.group.label)} (n = {drawn.count})"
        marked = marker if metric.startswith("eval/") and len(drawn.place) <= 20 else None
        if drawn.count > 1:
            bundle(axis, drawn.seeds, colour, alpha=0.35, linewidths=0.7)
        axis.fill_between(drawn.place, drawn.low, drawn.high, color=colour, alpha=0.18, linewidth=0)
        axis.plot(
            drawn.place, drawn.point, color=colour, linestyle=dash, marker=marked, markersize=4, label=label, zorder=3
        )
    for number, (place, value) in enumerate(strays.traces):
        label = f"{plain(strays.group.label)}, left out" if not number else None
        axis.plot(place, value, color=STRAY, linewidth=0.8, linestyle=":", label=label)
        axis.plot(place[-1:], value[-1:], color=colour, marker="x", markersize=6)


def _others(axis: Any, lines: list[Line | None]) -> None:
    bundle(axis, [(o.place, o.point) for o in lines if o is not None], "0.8", linewidths=0.7, zorder=1)


def steady_targets(runs: list[Run]) -> list[float]:
    """Those that stay; at most three, as more bands cover the curves."""
    logged = (run.metrics["control/target"].values for run in runs if "control/target" in run.metrics)
    found = sorted({round(float(values[-1]), 6) for values in logged if np.ptp(values) < 1e-6 and values[-1] > 0})
    return found if len(found) <= 3 else []


def draw_bands(axis: Any, targets: list[float]) -> None:
    for target in targets:
        axis.axhspan(
            target * (1 - BAND), target * (1 + BAND), color="0.88", zorder=0, label=f"target {target:.3g} ± {BAND:.0%}"
        )
        axis.axhline(target, color="0.4", linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)


def _note(metric: str) -> str:
    drawn = "Evaluations as they are" if metric.startswith("eval/") else "A running mean over a thirtieth of the run"
    return (
        f"{drawn}. Thick: mean over seeds; band: its 95 % t interval, from 3 seeds on; thin: up"
        " to 10 seeds; dotted and grey, with a cross at its end: a run that is left out of the mean."
    )


def told(title: str, across: str, lines: list[Line | None], strays: list[Strays], targets: list[float]) -> str:
    words = [f"{drawn.group.label} {_course(drawn)}" for drawn in lines if drawn is not None]
    out = sum(len(one.traces) for one in strays)
    more = f" {out} run{'s' if out > 1 else ''} left out of the means." if out else ""
    bands = "".join(f" A band marks {BAND:.0%} around the target of {target:.3g}." for target in targets)
    return f"Curves of {title} over {across}: {'; '.join(words) or 'no run to the end'}.{bands}{more}"


def _course(drawn: Line) -> str:
    first, last = drawn.point[0], drawn.point[-1]
    low, high = drawn.low[-1], drawn.high[-1]
    interval = f" (95 % interval {low:.3g} to {high:.3g})" if np.isfinite(low) else ""
    return f"goes from {first:.3g} to {last:.3g}{interval} with {drawn.count} seed{'s' if drawn.count > 1 else ''}"
