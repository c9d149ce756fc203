"""rliable's stratified bootstrap of one task, all resamples at once. arXiv:2108.13264

rliable draws its 2,000 resamples in a loop, up to a second per interval, and a report asks for hundreds. These
functions give the same numbers where both draw from the same seed, to the last digit (tests compare), and whole curves
as cheaply. Percentile intervals; they are narrow by construction for few seeds, as no resample holds a value that was
not seen.
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import norm

REPS = 2000
SEED = 0
LEVEL = 0.95
FEW = 3  # fewer values have no interval
MANY = 50  # with more, curves take a trimmed mean's own standard error: as good, and memory stays small


class Estimate(NamedTuple):
    """Over `size` values; `low` and `high` are NaN where there are too few for an interval."""

    point: float
    low: float
    high: float
    size: int


def iqm(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """Interquartile mean: a quarter, rounded down, is cut at each end; of up to 3 values it is their mean."""
    count = values.shape[axis]
    cut = int(0.25 * count)
    return np.asarray(np.sort(values, axis=axis).take(range(cut, count - cut), axis=axis).mean(axis))


def intervals(values: np.ndarray) -> list[Estimate]:
    """Seeds by columns: of the interquartile mean of each column."""
    count, found = len(values), list[Estimate]()
    drawn = _draw(np.random.RandomState(SEED), count)
    for some in np.split(values, range(200, values.shape[1], 200), axis=1):  # as much as fits into memory
        draws = iqm(some[drawn], axis=1)
        low, high = np.percentile(draws, _ends(), axis=0) if count >= FEW else np.full((2, draws.shape[1]), np.nan)
        places = zip(iqm(some).tolist(), low.tolist(), high.tolist(), strict=True)
        found += [Estimate(point, least, most, count) for point, least, most in places]
    return found


def difference(ours: np.ndarray, theirs: np.ndarray, paired: bool) -> Estimate:
    """Of the interquartile means. Paired values, of the same seeds in the same order, are drawn together."""
    source = np.random.RandomState(SEED)
    mine = _draw(source, len(ours))
    other = mine if paired else _draw(source, len(theirs))
    draws = iqm(ours[mine], axis=1) - iqm(theirs[other], axis=1)
    return _estimate(float(iqm(ours) - iqm(theirs)), draws, min(len(ours), len(theirs)))


def improvement(ours: np.ndarray, theirs: np.ndarray) -> Estimate:
    """Probability that a run of ours beats one of theirs; ties count half."""
    source = np.random.RandomState(SEED)
    if len(ours) == len(theirs):
        both = source.randint(0, len(ours), (REPS, 2, len(ours)))  # in rliable's order
        mine, other = both[:, 0], both[:, 1]
    else:
        mine, other = _draw(source, len(ours)), _draw(source, len(theirs))
    wins = (np.sign(ours[:, None] - theirs[None]) + 1) / 2
    draws = wins[mine[:, :, None], other[:, None, :]].mean((1, 2))  # sums of halves are exact in any order
    return _estimate(float(wins.mean()), draws, min(len(ours), len(theirs)))


def curve(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seeds by places: the interquartile mean at each place and the ends of its interval, NaN for too few seeds."""
    point, count = iqm(values), len(values)
    if count < FEW:
        nothing = np.full_like(point, np.nan)
        return point, nothing, nothing
    if count > MANY:
        reach = norm.ppf((1 + LEVEL) / 2) * _standard_error(values)
        return point, point - reach, point + reach
    draws = iqm(values[_draw(np.random.RandomState(SEED), count, reps=500)], axis=1)
    low, high = np.percentile(draws, _ends(), axis=0)
    return point, low, high


def _standard_error(values: np.ndarray) -> np.ndarray:
    """Of a trimmed mean: Winsorised standard deviation over the share kept. Tukey and McLaughlin 1963"""
    ordered, count = np.sort(values, axis=0), len(values)
    cut = int(0.25 * count)
    winsorised = np.clip(ordered, ordered[cut], ordered[count - cut - 1])
    return winsorised.std(0, ddof=1) / ((1 - 2 * cut / count) * np.sqrt(count))


def _draw(source: np.random.RandomState, count: int, reps: int = REPS) -> np.ndarray:
    return source.randint(0, count, (reps, count))


def _estimate(point: float, draws: np.ndarray, count: int) -> Estimate:
    low, high = np.percentile(draws, _ends()) if count >= FEW else (np.nan, np.nan)
    return Estimate(point, float(low), float(high), count)


def _ends() -> list[float]:
    return [50 * (1 - LEVEL), 50 * (1 + LEVEL)]
