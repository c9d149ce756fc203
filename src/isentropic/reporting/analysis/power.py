"""What so many seeds could find: the difference that a t test tells from none four times in five."""

from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2, norm, t

POWER = 0.8
CHANCE = 0.05
GRID = 4000  # points over the spreads that may be seen; scipy's noncentral t fails far out in its tail


@cache
def findable(ours: int, theirs: int, paired: bool, comparisons: int = 1) -> float:
    """In standard deviations: of the differences of pairs, else of the values of either group, taken as equal.

    Of the first step of Holm's correction for so many comparisons. Infinite below two seeds. Cohen 1988
    """
    size = min(ours, theirs)
    if size < 2:
        return float("inf")
    free, unit = (size - 1, size**-0.5) if paired else (ours + theirs - 2, (1 / ours + 1 / theirs) ** 0.5)
    bound = float(t.isf(CHANCE / comparisons / 2, free))
    spreads = np.sqrt(chi2.ppf((np.arange(GRID) + 0.5) / GRID, free) / free)  # that are seen, in true ones

    def missing(away: float) -> float:
        return POWER - float((norm.sf(bound * spreads - away) + norm.cdf(-bound * spreads - away)).mean())

    return unit * float(brentq(missing, 0, 10 * bound, xtol=1e-6))  # pyright: ignore[reportArgumentType]
