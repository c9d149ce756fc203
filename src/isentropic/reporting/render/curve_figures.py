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
from isentropic.reporting.render.style import (
    SETTINGS,
    End,
    Style,
    bundle,
    frame,
    label_ends,
    plain,
    save,
    single,
    styles,
)
from isentropic.runs.parallel import spread
from isentropic.runs.run import Run

TITLES = {
    "entropy/mean": "entropy (nats per token)",
    "rollout/length": "response length (tokens)",
    "rollout/all_right": "share of groups with nothing but right answers",
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


def curve_lines(groups: Sequence[Group], included: set[Path], more: Sequence[str] = ()) -> Lines:
    """`included`: folders of the runs in the statistics; `more`: metrics that were asked for by name."""
    runs = [run for group in groups for run in group.runs]
    kept = [[run for run in group.runs if run.folder in included] for group in groups]
    evaluations = sorted({name for run in runs for name in run.scores})
    return {
        (metric, axis): [line(group, some, metric, axis) for group, some in zip(groups, kept, strict=True)]
        for metric in dict.fromkeys(
            (*evaluations, *(name for name in TITLES if any(name in run.metrics for run in runs)), *more)
        )
        for axis in (AXES if metric in EVERY_AXIS or metric in evaluations else ("rollouts",))
    }


def curve_pictures(
    groups: Sequence[Group], included: set[Path], lines: Lines, folder: Path, looks: Sequence[Style] | None = None
) -> list[Drawing]:
    """Runs that are not included are drawn thin and grey, up to their end. What never changes is left out.

    So is what was measured at one place alone, as pictures of final scores have it.
    """
    looks = looks or styles(len(groups))
    runs = [run for group in groups for run in group.runs]
    found: list[Drawing] = []
    for (metric, axis), drawn in lines.items():
        strays = [strays_of(group, included, metric, axis) for group in groups]
        longest = max([0, *(len(one.place) for one in drawn if one), *(len(p) for s in strays for p, _ in s.traces)])
        if longest > 1 and not silent(drawn):
            targets = steady_targets(runs) if metric == "entropy/mean" else []
            found.append(partial(_drawn, metric, axis, drawn, strays, targets, looks, folder))
    return found


def strays_of(group: Group, included: set[Path], metric: str, axis: str) -> Strays:
    out = [run for run in group.runs if run.folder not in included][:10]
    return Strays(group, [found for run in out if (found := trace(run, metric, axis)) is not None])


def _draw(drawing: Drawing) -> Picture:
    with matplotlib.rc_context(SETTINGS):
        return drawing()


def _drawn(
    metric: str,
    axis: str,
    lines: list[Line | None],
    strays: list[Strays],
    targets: list[float],
    looks: Sequence[Style],
    folder: Path,
) -> Picture:
    title, across = title_of(metric), AXES[axis]
    count = sum(drawn is not None for drawn in lines) + sum(bool(one.traces) for one in strays)
    figure, here = single(count)
    ends: list[End] = []
    for look, drawn, stray in sorted(zip(looks, lines, strays, strict=True), key=lambda one: not one[0].quiet):
        ends += draw_group(here, look, drawn, stray, metric)
    frame(here, title, across)
    draw_bands(here, targets)
    known = metric in TITLES or metric.startswith("eval/")  # others may be negative
    here.set_ylim(bottom=0 if known and metric != "rollout/reward" else min(0, here.get_ylim()[0]))
    label_ends(here, ends, figure.get_figheight() - 0.8)
    name = f"{metric.replace('/', '_').replace('@', '_at_')}_{axis}"
    save(figure, folder, name)
    return Picture(
        name, f"{title}, over {across}", told(title, across, lines, strays, targets), _note(metric), metric, axis
    )


def title_of(metric: str) -> str:
    if metric.startswith("eval/"):
        return f"{metric.removeprefix('eval/')} on held-out problems"
    return TITLES.get(metric, metric)


def silent(lines: Sequence[Line | None]) -> bool:
    """Whether no run's curve ever changes, nor differs from another's."""
    values = [value for one in lines if one is not None for value in (one.point, *(seed for _, seed in one.seeds))]
    return bool(values) and max(float(v.max()) for v in values) - min(float(v.min()) for v in values) <= 1e-12


def draw_group(axis: Any, look: Style, drawn: Line | None, strays: Strays, metric: str) -> list[End]:
    """Gives what is to be written at the curves' ends."""
    ends: list[End] = []
    if drawn is not None:
        marked = look.marker if metric.startswith("eval/") and len(drawn.place) <= 20 and not look.quiet else None
        if drawn.count > 1 and not look.quiet:
            bundle(axis, drawn.seeds, look.colour, alpha=0.35, linewidths=0.7)
            axis.fill_between(drawn.place, drawn.low, drawn.high, color=look.colour, alpha=0.18, linewidth=0)
        axis.plot(
            drawn.place, drawn.point, color=look.colour, linestyle=look.dash, marker=marked, markersize=3,
            linewidth=0.8 if look.quiet else 1.3, zorder=2 if look.quiet else 3,
        )  # fmt: skip
        label = f"{plain(drawn.group.label, 24)} (n = {drawn.count})"
        ends.append(End(float(drawn.point[-1]), label, "0.4" if look.quiet else look.colour))
    for number, (place, value) in enumerate(strays.traces):
        axis.plot(place, value, color=STRAY, linewidth=0.8, linestyle=":")
        axis.plot(place[-1:], value[-1:], color=look.colour, marker="x", markersize=4.5)
        if not number:
            ends.append(End(float(value[-1]), f"{plain(strays.group.label, 24)}, left out", STRAY))
    return ends


def steady_targets(runs: list[Run]) -> list[float]:
    """Those that stay; at most three, as more bands cover the curves."""
    logged = (run.metrics["control/target"].values for run in runs if "control/target" in run.metrics)
    found = sorted({round(float(values[-1]), 6) for values in logged if np.ptp(values) < 1e-6 and values[-1] > 0})
    return found if len(found) <= 3 else []


def draw_bands(axis: Any, targets: list[float]) -> None:
    """Named where curves begin, which is seldom within the band; they end there."""
    for target in targets:
        axis.axhspan(target * (1 - BAND), target * (1 + BAND), color="0.88", zorder=0)
        axis.text(
            0.01, target, f"target {target:.3g} ± {BAND:.0%}", fontsize=7, color="0.35", ha="left", va="bottom",
            transform=axis.get_yaxis_transform(),
        )  # fmt: skip
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
