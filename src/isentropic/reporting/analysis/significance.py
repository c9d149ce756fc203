"""What can be claimed of the differences between groups.

A difference is claimed (higher, lower) if there are 5 seeds or more, the bootstrap's 95 % interval excludes 0 and
Welch's test, or the paired t-test on shared seeds, stays under 5 % after Holm's correction for all comparisons of that
score. It is suggested if the interval excludes 0 and the rest fails. The reasons:

- Of 3 against 3 seeds, all of one above all of the other happens by chance once in ten (exact Mann-Whitney, both
  sides), and the bootstrap's 95 % interval of 3 normal values holds the truth 73 times in 100; of 5, 91 times.
- Of twenty comparisons of equals, one interval excludes 0; and the best of many was chosen by its luck too.
- Welch's test is what "How many random seeds?" (arXiv:1806.08295) recommends for few seeds of unequal spread.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.stats import ttest_ind, ttest_rel

from isentropic.reporting.analysis.bootstrap import FEW, Estimate, difference, improvement
from isentropic.reporting.analysis.groups import Group
from isentropic.reporting.analysis.scores import Score

ENOUGH = 5  # seeds for a claim
CHANCE = 0.05
EVERY_PAIR = 6  # groups up to which each is compared with each; of more, each with the reference


@dataclass(frozen=True)
class Comparison:
    metric: str
    ours: Group
    theirs: Group
    paired: bool  # the same seeds on both sides, drawn together
    difference: Estimate  # of the interquartile means, ours minus theirs
    probability: Estimate  # that a run of ours beats one of theirs
    p: float  # of no difference, after Holm's correction; NaN where there are too few seeds
    verdict: str  # higher, lower, suggests higher, suggests lower, open, too few

    @property
    def chance(self) -> str:
        return "" if self.p != self.p else "< 0.001" if self.p < 0.001 else f"{self.p:.2g}"

    @property
    def change(self) -> str:
        point, low, high, size = self.difference
        seeds = f"{size} pair{'s' if size > 1 else ''}" if self.paired else f"{size} seed{'s' if size > 1 else ''}"
        sign = "" if self.chance.startswith("<") else "= "
        interval = f" [{low:+.3f}, {high:+.3f}], p {sign}{self.chance}" if size >= FEW else ""
        return f"{point:+.3f}{interval}, {seeds}"


def comparisons(found: Sequence[Score], reference: Group, others: int) -> list[Comparison]:
    """`others`: how many groups might have been compared with the reference, of which these were chosen."""
    result: list[Comparison] = []
    for metric in dict.fromkeys(score.metric for score in found):
        rows = [score for score in found if score.metric == metric]
        base = [score for score in rows if score.group is reference]
        if len(rows) <= EVERY_PAIR:
            ordered = base + [score for score in rows if score.group is not reference]
            made = [compare(later, first) for first, later in combinations(ordered, 2)]
        else:
            made = [compare(score, base[0]) for score in rows if base and score is not base[0]]
        result += holm(made, max(len(made), others))
    return result


def compare(ours: Score, theirs: Score) -> Comparison:
    """Before any correction."""
    mine, other, paired = pairs(ours, theirs)
    change = difference(mine, other, paired)
    return Comparison(
        metric=ours.metric,
        ours=ours.group,
        theirs=theirs.group,
        paired=paired,
        difference=change,
        probability=improvement(ours.values, theirs.values),
        p=_chance(mine, other, paired),
        verdict=_verdict(change, np.nan),
    )


def holm(made: list[Comparison], count: int) -> list[Comparison]:
    """Corrected for so many comparisons, of which these are those with the least chance."""
    chances = corrected([one.p for one in made], count)
    pairs = zip(made, chances, strict=True)
    return [replace(one, p=p, verdict=_verdict(one.difference, p)) if p == p else one for one, p in pairs]


def corrected(chances: Sequence[float], count: int) -> list[float]:
    """By Holm's procedure for so many comparisons, of which these have the least chance; NaN stays. Holm 1979"""
    least, result = 0.0, list(chances)
    for rank, index in enumerate(sorted((i for i, p in enumerate(chances) if p == p), key=lambda i: chances[i])):
        least = max(least, min(1.0, (count - rank) * chances[index]))
        result[index] = least
    return result


def pairs(ours: Score, theirs: Score) -> tuple[np.ndarray, np.ndarray, bool]:
    """Seeds that both have, in one order, if each stands once and they are half of what there is or more."""
    mine, other = dict(zip(ours.seeds, ours.values, strict=True)), dict(zip(theirs.seeds, theirs.values, strict=True))
    both = [seed for seed in mine if seed in other and seed is not None]
    once = len(mine) == len(ours.seeds) and len(other) == len(theirs.seeds)
    if not once or len(both) < max(2, 0.5 * max(len(mine), len(other))):
        return ours.values, theirs.values, False
    return np.array([mine[seed] for seed in both]), np.array([other[seed] for seed in both]), True


def _chance(ours: np.ndarray, theirs: np.ndarray, paired: bool) -> float:
    """NaN for too few seeds; 1 where no seed differs from another, as spread cannot be told then."""
    if min(len(ours), len(theirs)) < FEW:
        return np.nan
    spread = np.ptp(ours - theirs) if paired else max(np.ptp(ours), np.ptp(theirs))
    if not spread > 0:
        return 1.0
    test = ttest_rel(ours, theirs) if paired else ttest_ind(ours, theirs, equal_var=False)
    return float(test.pvalue)  # pyright: ignore[reportAttributeAccessIssue]


def _verdict(change: Estimate, p: float) -> str:
    if change.size < FEW:
        return "too few"
    if change.low <= 0 <= change.high:
        return "open"
    way = "higher" if change.point > 0 else "lower"
    return way if change.size >= ENOUGH and p <= CHANCE else f"suggests {way}"
