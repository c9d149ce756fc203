"""One estimate, one interval, one test: the mean over seeds, Student's t about it, and the t test that agrees with it.

A difference is the mean of the differences of pairs where two groups have the same seeds, else the difference of means
with Welch's interval and test, as "How many random seeds?" advises (arXiv:1806.08295): its interval excludes 0 where
p < 0.05, and nowhere else. Percentile bootstraps are too narrow for seeds: of three values they give the range, which
holds the mean three times in four. benchmarks/inference.py measures what these intervals and tests hold.
"""

import warnings
from typing import NamedTuple

import numpy as np
from scipy.stats import sem, t, ttest_ind, ttest_rel

LEVEL = 0.95
FEW = 3  # fewer values are shown one by one, without an interval
EQUAL = 1e-9  # of the values: less spread than this is rounding


class Estimate(NamedTuple):
    """Over `size` values or pairs; `low` and `high` are NaN where there are too few, or no spread to tell them by."""

    point: float
    low: float
    high: float
    size: int


class Change(NamedTuple):
    """Of groups: the difference of means, its interval, p of no difference, and the spread that a seed adds to it.

    Arrays over what `changes` was given besides seeds. `spread` is of one difference of a pair, else the root of half
    of both variances. Without an interval p is NaN.
    """

    point: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    spread: np.ndarray


def intervals(values: np.ndarray) -> list[Estimate]:
    """Seeds by columns: of the mean of each column."""
    ends = (part.tolist() for part in curve(values))
    return [Estimate(point, low, high, len(values)) for point, low, high in zip(*ends, strict=True)]


def curve(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seeds by places: the mean at each place and the ends of its interval, NaN for too few seeds."""
    count, point = len(values), values.mean(0)
    if count < FEW:
        nothing = np.full(point.shape, np.nan)
        return point, nothing, nothing
    reach = t.ppf((1 + LEVEL) / 2, count - 1) * sem(values, axis=0)
    return point, point - reach, point + reach


def changes(ours: np.ndarray, theirs: np.ndarray, paired: bool) -> Change:
    """Seeds along the first axis; paired values are of the same seeds in the same order."""
    point = ours.mean(0) - theirs.mean(0)
    if min(len(ours), len(theirs)) < FEW:
        nothing = np.full(point.shape, np.nan)
        return Change(point, nothing, nothing, nothing, nothing)
    spread = (ours - theirs).std(0, ddof=1) if paired else np.sqrt((ours.var(0, ddof=1) + theirs.var(0, ddof=1)) / 2)
    size = np.abs(ours).max(0) + np.abs(theirs).max(0)
    known = spread > EQUAL * size
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of values without spread, which are left out below
        test = ttest_rel(ours, theirs) if paired else ttest_ind(ours, theirs, equal_var=False)
        ends = test.confidence_interval(LEVEL)  # pyright: ignore[reportAttributeAccessIssue]
    low, high, p = (np.where(known, x, np.nan) for x in (ends.low, ends.high, test.pvalue))  # pyright: ignore[reportAttributeAccessIssue]
    return Change(point, low, high, p, np.where(known, spread, np.nan))


def holm(chances: np.ndarray, count: int) -> np.ndarray:
    """Chances along the last axis, corrected for `count` comparisons, of which these are the least. NaN stays NaN."""
    order = np.argsort(chances, axis=-1)  # NaN last
    ranked = np.take_along_axis(chances, order, -1) * (count - np.arange(chances.shape[-1]))
    corrected = np.minimum(np.maximum.accumulate(ranked, -1), 1)
    return np.take_along_axis(corrected, np.argsort(order, axis=-1), -1)
