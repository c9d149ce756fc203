"""What can be claimed of the differences between groups.

A difference is claimed (higher, lower) if its p stays under 5 % after Holm's correction. What is corrected for: with a
primary metric, named before the runs, the comparisons by it, and nothing is claimed by any other; without one, all
comparisons by all metrics. So one report in twenty of equal groups claims anything. A difference is suggested if p is
under 5 % before correction, and the corrected one under 1: of twenty such comparisons of equals, one.

Fewer than 5 seeds suggest at most. The t test holds with 3 as well where seeds are normal; where one in five collapses,
all three of some of a dozen groups do so in one report of eleven, and look like a method that fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from isentropic.reporting.analysis.estimate import FEW, Estimate, changes, holm
from isentropic.reporting.analysis.groups import Group
from isentropic.reporting.analysis.power import CHANCE, findable
from isentropic.reporting.analysis.scores import Score

ENOUGH = 5  # seeds for a claim
EVERY_PAIR = 6  # groups up to which each is compared with each, where no reference was named


@dataclass(frozen=True)
class Comparison:
    metric: str
    ours: Group
    theirs: Group
    paired: bool  # the same seeds on both sides
    sizes: tuple[int, int]  # seeds, ours and theirs, of which both are pairs where they are paired
    difference: Estimate  # of means, ours minus theirs
    spread: float  # standard deviation of a pair's difference, else of a seed's value; NaN where it cannot be told
    p: float  # of no difference, before correction, as the interval is; NaN where there are too few seeds
    among: int = 1  # comparisons that p is corrected for
    corrected: float = np.nan  # NaN where nothing is claimed by this metric
    verdict: str = "open"  # higher, lower, suggests higher, suggests lower, open, too few

    @property
    def findable(self) -> float:
        """The difference that these seeds would find four times in five."""
        return self.spread * findable(*self.sizes, self.paired, self.among) if self.spread == self.spread else np.nan

    @property
    def change(self) -> str:
        point, low, high, size = self.difference
        seeds = f"{size} {'pair' if self.paired else 'seed'}{'s' if size > 1 else ''}"
        interval = f" [{low:+.3f}, {high:+.3f}], p {chance(self.p)}" if low == low else ""
        corrected = f", corrected {chance(self.corrected)}" if self.corrected == self.corrected else ""
        return f"{point:+.3f}{interval}{corrected}, {seeds}"


def chance(p: float) -> str:
    return "" if p != p else "< 0.001" if p < 0.001 else f"= {p:.2g}"


def comparisons(
    found: Sequence[Score], reference: Group, others: int, primary: str | None = None, alone: bool = False
) -> list[Comparison]:
    """`others`: how many groups might have been compared with the reference, of which these were chosen.

    Nothing is claimed by any metric but `primary`, where there is one. `alone`: each with the reference only, also
    where they are few.
    """
    metrics = dict.fromkeys(score.metric for score in found)
    made = [pair for metric in metrics for pair in _made(found, metric, reference, alone)]
    claimed = [index for index, pair in enumerate(made) if primary in (None, pair.metric)]
    counts = [sum(made[index].metric == metric for index in claimed) for metric in metrics]
    among = sum(max(count, others) for count in counts if count)
    chances = holm(np.array([made[index].p for index in claimed]), among)
    for index, corrected in zip(claimed, chances.tolist(), strict=True):
        made[index] = replace(made[index], among=among, corrected=corrected, verdict=_verdict(made[index], corrected))
    return made


def _made(found: Sequence[Score], metric: str, reference: Group, alone: bool) -> list[Comparison]:
    rows = [score for score in found if score.metric == metric]
    base = [score for score in rows if score.group is reference]
    if len(rows) <= EVERY_PAIR and not alone:
        ordered = base + [score for score in rows if score.group is not reference]
        return [compare(later, first) for first, later in combinations(ordered, 2)]
    return [compare(score, base[0]) for score in rows if base and score is not base[0]]


def compare(ours: Score, theirs: Score) -> Comparison:
    """Before any correction, so that it suggests at most."""
    mine, other, paired = pairs(ours, theirs)
    point, low, high, p, spread = (float(x) for x in changes(mine, other, paired))
    change, sizes = Estimate(point, low, high, min(len(mine), len(other))), (len(mine), len(other))
    made = Comparison(ours.metric, ours.group, theirs.group, paired, sizes, change, spread, p)
    return replace(made, verdict=_verdict(made, np.nan))


def pairs(ours: Score, theirs: Score) -> tuple[np.ndarray, np.ndarray, bool]:
    """Seeds that both have, in one order, if each stands once and they are half of what there is or more."""
    mine, other = dict(zip(ours.seeds, ours.values, strict=True)), dict(zip(theirs.seeds, theirs.values, strict=True))
    both = [seed for seed in mine if seed in other and seed is not None]
    once = len(mine) == len(ours.seeds) and len(other) == len(theirs.seeds)
    if not once or len(both) < max(2, 0.5 * max(len(mine), len(other))):
        return ours.values, theirs.values, False
    return np.array([mine[seed] for seed in both]), np.array([other[seed] for seed in both]), True


def _verdict(one: Comparison, corrected: float) -> str:
    if one.difference.size < FEW:
        return "too few"
    way = "higher" if one.difference.point > 0 else "lower"
    if corrected < CHANCE and one.difference.size >= ENOUGH:
        return way
    return f"suggests {way}" if one.p < CHANCE and not corrected >= 1 else "open"
