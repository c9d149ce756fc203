"""Final scores of groups: never a mean without its seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from isentropic.reporting.analysis.estimate import Estimate, intervals
from isentropic.reporting.analysis.groups import Group
from isentropic.runs.run import Run
from isentropic.runs.settings import Scalar

ENDS = {"rollout/reward": "reward at the end", "entropy/mean": "entropy at the end"}


@dataclass(frozen=True)
class Score:
    """One metric of one group at the end of its runs."""

    group: Group
    metric: str
    seeds: list[Scalar]
    values: np.ndarray  # along the seeds
    estimate: Estimate  # of the mean


def measured(runs: Sequence[Run]) -> list[str]:
    """By what runs are compared: their evaluations, or the reward they learn from if there is none, and entropy."""
    evaluations = sorted({name for run in runs for name in run.scores})
    others = [name for name in ENDS if any(name in run.metrics for run in runs)]
    return evaluations + [name for name in others if name != "rollout/reward" or not evaluations]


def final(run: Run, metric: str) -> float | None:
    """At the last evaluation; of what every rollout logs, the mean over the last tenth of the run."""
    series = run.metrics.get(metric)
    if series is None or (metric in run.broken and metric.startswith("eval/")):
        return None
    return (
        series.last if metric.startswith("eval/") else float(series.values[-max(1, len(series.values) // 10) :].mean())
    )


def title(metric: str) -> str:
    return ENDS.get(metric, metric.removeprefix("eval/"))


def scores(groups: Sequence[Group], included: Callable[[Run], bool]) -> list[Score]:
    """Of every group and metric for which there is a run to include; groups in their order within each metric."""
    found: list[tuple[Group, str, list[Scalar], np.ndarray]] = []
    kept = [(group, [run for run in group.runs if included(run)]) for group in groups]
    for metric in measured([run for _, runs in kept for run in runs]):
        for group, runs in kept:
            values = [(run.seed, value) for run in runs if (value := final(run, metric)) is not None]
            if values:
                found.append((group, metric, [seed for seed, _ in values], np.array([value for _, value in values])))
    estimates = _together([values for *_, values in found])
    return [Score(*parts, estimate) for parts, estimate in zip(found, estimates, strict=True)]


def _together(columns: list[np.ndarray]) -> list[Estimate]:
    """Groups of equally many seeds in one array."""
    found: dict[int, Estimate] = {}
    for size in {len(column) for column in columns}:
        places = [i for i, column in enumerate(columns) if len(column) == size]
        found |= dict(zip(places, intervals(np.stack([columns[i] for i in places], axis=1)), strict=True))
    return [found[i] for i in range(len(columns))]
