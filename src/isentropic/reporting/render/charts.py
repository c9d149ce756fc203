"""Curves and final scores as numbers that the page's script and template draw, in the few digits that can be seen."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from isentropic.reporting.analysis.axes import AXES
from isentropic.reporting.analysis.bootstrap import FEW
from isentropic.reporting.analysis.learning_curves import Line
from isentropic.reporting.analysis.scores import Score, title
from isentropic.reporting.analysis.smoothing import BAND, smooth
from isentropic.reporting.render.curve_figures import TITLES, steady_targets
from isentropic.reporting.render.report import Report
from isentropic.runs.run import Run

SPARK = 60  # points of a run's entropy in a table
DIGITS = 4


def curves(report: Report) -> dict[str, Any]:
    """Of each metric over each axis, the groups' lines; and what is seen of it in words, from the pictures."""
    drawn = list(dict.fromkeys(picture.metric for picture in report.pictures if picture.axis))
    charts: list[dict[str, Any]] = []
    bands = _bands([run for group in report.shown for run in group.runs])
    for metric in drawn:
        pictures = {one.axis: one for one in report.pictures if one.metric == metric and one.axis}
        lines = {axis: _lines(report.lines[metric, axis]) for axis in pictures}
        charts.append(
            {
                "metric": metric,
                "title": TITLES.get(metric, f"{metric.removeprefix('eval/')} on held-out problems"),
                "alt": {axis: one.alt for axis, one in pictures.items()},
                "files": {axis: f"figures/{one.name}" for axis, one in pictures.items()},
                "bands": bands if metric == "entropy/mean" else [],
                "lines": {axis: found for axis, found in lines.items() if found},
            }
        )
    return {
        "groups": [group.label for group in report.shown],
        "axes": AXES,
        "charts": [chart for chart in charts if chart["lines"]],
    }


def _lines(lines: list[Line | None]) -> list[dict[str, Any]]:
    return [{"group": index, **_line(drawn)} for index, drawn in enumerate(lines) if drawn is not None]


def _line(drawn: Line) -> dict[str, Any]:
    sure = drawn.count >= FEW
    return {
        "count": drawn.count,
        "place": numbers(drawn.place, 6),
        "point": numbers(drawn.point),
        "low": numbers(drawn.low) if sure else [],
        "high": numbers(drawn.high) if sure else [],
        "seeds": [numbers(np.interp(drawn.place, *seed)) for seed in drawn.seeds] if drawn.count > 1 else [],
    }


def numbers(values: np.ndarray, digits: int = DIGITS) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values.tolist()]


def _bands(runs: list[Run]) -> list[dict[str, float]]:
    return [{"target": at, "low": at * (1 - BAND), "high": at * (1 + BAND)} for at in steady_targets(runs)]


@dataclass(frozen=True)
class Dots:
    """One score of all groups on one scale; places are shares of its width in per cent."""

    title: str
    ticks: list[tuple[float, str]]
    rows: list[dict[str, Any]]


def dots(report: Report) -> list[Dots]:
    found: list[Dots] = []
    for metric in dict.fromkeys(score.metric for score in report.scores):
        own = {id(score.group): score for score in report.scores if score.metric == metric}
        rows = [(place, own[id(group)]) for place, group in enumerate(report.shown) if id(group) in own]
        if rows:
            scale = ticks([value for _, score in rows for value in score.values.tolist()])
            marks = [(share(tick, scale), f"{tick:g}") for tick in scale]
            found.append(Dots(title(metric), marks, [_row(place, score, scale) for place, score in rows]))
    return found


def _row(place: int, score: Score, scale: list[float]) -> dict[str, Any]:
    point, low, high, size = score.estimate
    seeds = zip(score.values.tolist(), score.seeds, strict=True)
    return {
        "group": place,
        "label": score.group.label,
        "count": size,
        "point": share(point, scale),
        "text": _text(point, low, high, size),
        "interval": (share(low, scale), share(high, scale)) if size >= FEW else None,
        "seeds": [(share(value, scale), f"seed {seed}: {value:.3f}") for value, seed in seeds],
    }


def share(value: float, scale: list[float]) -> float:
    """Per cent of the way along a scale."""
    return round(100 * (value - scale[0]) / (scale[-1] - scale[0]), 2)


def _text(point: float, low: float, high: float, size: int) -> str:
    return f"{point:.3f}" + (f" [{low:.3f}, {high:.3f}]" if size >= FEW else "")


def ticks(values: list[float]) -> list[float]:
    """Four to seven round numbers around the values."""
    low, high = min(values), max(values)
    width = high - low or abs(high) * 0.1 or 1.0
    rough = width / 4
    base = 10 ** np.floor(np.log10(rough))
    step = next(base * factor for factor in (1, 2, 2.5, 5, 10) if base * factor >= rough)
    first, last = np.floor(low / step - 0.1), np.ceil(high / step + 0.1)
    return [float(f"{step * place:.6g}") for place in np.arange(first, last + 1)]


def spark(run: Run, top: float) -> str:
    """A run's entropy as the points of a line in a box of 100 by 24; empty where it was not logged."""
    series = run.metrics.get("entropy/mean")
    if series is None or len(series.steps) < 2 or not top > 0:
        return ""
    steps = np.linspace(series.steps[0], series.steps[-1], min(SPARK, len(series.steps)))
    values = np.interp(steps, series.steps, smooth(series.values))
    across, up = 100 * (steps - steps[0]) / (steps[-1] - steps[0]), 24 - 23 * np.clip(values / top, 0, 1)
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across.tolist(), up.tolist(), strict=True))
