"""Learning curves of groups: the mean over seeds at each place of an axis, with its interval."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isentropic.reporting.analysis.axes import along
from isentropic.reporting.analysis.estimate import curve
from isentropic.reporting.analysis.groups import Group
from isentropic.reporting.analysis.smoothing import smooth
from isentropic.runs.run import Run

PLACES = 100  # of a line; more cannot be seen
LONE = 10  # seeds up to which each is drawn too


@dataclass(frozen=True)
class Line:
    """`low` and `high` are NaN where there are too few seeds."""

    group: Group
    place: np.ndarray
    point: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: list[tuple[np.ndarray, np.ndarray]]  # place and value of each run in it
    count: int


def line(group: Group, runs: Sequence[Run], metric: str, axis: str) -> Line | None:
    """Of runs that go together to the end: it stops where the first of them does. None if none logged the metric."""
    drawn = [pair for run in runs if (pair := trace(run, metric, axis)) is not None]
    if not drawn:
        return None
    places = _places(drawn)
    if not len(places):
        return None
    values = np.stack([np.interp(places, place, value) for place, value in drawn])
    point, low, high = curve(values)
    return Line(group, places, point, low, high, drawn[:LONE], len(drawn))


def trace(run: Run, metric: str, axis: str) -> tuple[np.ndarray, np.ndarray] | None:
    """One run: evaluations as they are, what every rollout logs as a running mean."""
    series = run.metrics.get(metric)
    if series is None:
        return None
    place = along(run, axis, series.steps)
    if place is None:
        return None
    return place, series.values if metric.startswith("eval/") else smooth(series.values)


def _places(drawn: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Those that all have, if they are the same and few; else evenly over what all have."""
    first = drawn[0][0]
    if len(first) <= PLACES and all(np.array_equal(first, place) for place, _ in drawn[1:]):
        return first
    low, high = max(place[0] for place, _ in drawn), min(place[-1] for place, _ in drawn)
    return np.linspace(low, high, PLACES) if high > low else np.array([])
