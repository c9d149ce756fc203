"""Final scores of groups, and what can be claimed of their differences. Never a mean without its seeds.

What may be said is a matter of how many seeds there are:

    1 or 2    points alone: an interval of two values is their range
    3 or 4    "suggests": of 3 against 3 seeds, all of one above all of the other happens by chance once in ten (exact
              Mann-Whitney, both sides), and the bootstrap's 95 % interval of 3 normal values holds the truth 73 times
              in 100
    5 or more "is higher": once in 126, and 91 times in 100
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from isentropic.reporting.bootstrap import FEW, Estimate, difference, improvement, intervals
from isentropic.reporting.groups import Group
from isentropic.reporting.runs import Run
from isentropic.reporting.settings import Scalar

ENDS = {"rollout/reward": "reward at the end", "entropy/mean": "entropy at the end"}
ENOUGH = 5  # seeds for a claim
EVERY_PAIR = 6  # groups up to which each is compared with each; of more, each with the reference


@dataclass(frozen=True)
class Score:
    """One metric of one group at the end of its runs."""

    group: Group
    metric: str
    seeds: list[Scalar]
    values: np.ndarray  # along the seeds
    estimate: Estimate  # of the interquartile mean


@dataclass(frozen=True)
class Comparison:
    metric: str
    ours: Group
    theirs: Group
    paired: bool  # the same seeds on both sides, drawn together
    difference: Estimate  # ours minus theirs
    probability: Estimate  # that a run of ours beats one of theirs
    verdict: str  # higher, lower, suggests higher, suggests lower, open, too few

    @property
    def sentence(self) -> str:
        name, low, high = title(self.metric), self.difference.low, self.difference.high
        both = f"{name} of {self.ours.label}"
        by = f"by {abs(self.difference.point):.3f}, 95 % interval of the difference {low:+.3f} to {high:+.3f}"
        seeds = f"{self.difference.size} seeds each" if self.paired else f"at least {self.difference.size} seeds each"
        match self.verdict:
            case "higher" | "lower":
                return f"{both} is {self.verdict} than that of {self.theirs.label} ({by}, {seeds})."
            case "suggests higher" | "suggests lower":
                way = self.verdict.removeprefix("suggests ")
                return (
                    f"{both} looks {way} than that of {self.theirs.label} ({by}), but {seeds} only suggest it: run"
                    f" {ENOUGH} or more."
                )
            case "open":
                return f"{both} and of {self.theirs.label} cannot be told apart ({by}, {seeds})."
            case _:
                return (
                    f"{both} against {self.theirs.label}: {self.difference.point:+.3f} with {self.difference.size}"
                    f" seed{'s' if self.difference.size > 1 else ''}, from which nothing can be claimed."
                )


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


def comparisons(found: Sequence[Score], reference: Group) -> list[Comparison]:
    result: list[Comparison] = []
    for metric in dict.fromkeys(score.metric for score in found):
        rows = [score for score in found if score.metric == metric]
        base = [score for score in rows if score.group is reference]
        if len(rows) <= EVERY_PAIR:
            ordered = base + [score for score in rows if score.group is not reference]
            result += [compare(later, first) for first, later in combinations(ordered, 2)]
        else:
            result += [compare(score, base[0]) for score in rows if base and score is not base[0]]
    return result


def compare(ours: Score, theirs: Score) -> Comparison:
    mine, other, paired = _paired(ours, theirs)
    change = difference(mine, other, paired)
    return Comparison(
        metric=ours.metric,
        ours=ours.group,
        theirs=theirs.group,
        paired=paired,
        difference=change,
        probability=improvement(ours.values, theirs.values),
        verdict=_verdict(change),
    )


def _paired(ours: Score, theirs: Score) -> tuple[np.ndarray, np.ndarray, bool]:
    """Seeds that both have, in one order, if each stands once and pairs are most of what there is."""
    mine, other = dict(zip(ours.seeds, ours.values, strict=True)), dict(zip(theirs.seeds, theirs.values, strict=True))
    both = [seed for seed in mine if seed in other and seed is not None]
    once = len(mine) == len(ours.seeds) and len(other) == len(theirs.seeds)
    if not once or len(both) < max(2, 0.5 * max(len(mine), len(other))):
        return ours.values, theirs.values, False
    return np.array([mine[seed] for seed in both]), np.array([other[seed] for seed in both]), True


def _verdict(change: Estimate) -> str:
    if change.size < FEW:
        return "too few"
    if change.low <= 0 <= change.high:
        return "open"
    way = "higher" if change.point > 0 else "lower"
    return way if change.size >= ENOUGH else f"suggests {way}"


def seeds_caution(groups: Sequence[Group], counts: dict[str, int]) -> str:
    """How many seeds there are, and whether that is enough. `counts`: label → runs in the statistics."""
    fewest, most = min(counts.values(), default=0), max(counts.values(), default=0)
    span = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    text = f"{len(groups)} group{'s' if len(groups) != 1 else ''} with {span} seed{'s' if most != 1 else ''} each"
    if fewest < FEW:
        return f"{text}: fewer than {FEW} seeds have no interval, and nothing can be claimed of them."
    if fewest < ENOUGH:
        return f"{text}: with fewer than {ENOUGH} a difference is suggested at most, and intervals are too narrow."
    return f"{text}: enough for a claim where an interval excludes 0; intervals of few seeds are somewhat too narrow."


def profile(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Share of runs that score above each threshold: rliable's performance profile of one task."""
    return (values[:, None] > thresholds).mean(0)
