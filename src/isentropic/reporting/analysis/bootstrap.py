"""Percentile bootstrap intervals of a report: scipy's resamples of what rliable estimates. arXiv:2108.13264

rliable draws its 2,000 resamples in a loop, up to a second per interval, and a report asks for hundreds. scipy draws
all at once, from one seed the same ones, so numbers are rliable's to the last digit (tests compare). Two things are our
own: scipy's trim_mean takes 2 to 3 times as long as sorting here, and where two samples are equally many, rliable draws
them in turns. Intervals are narrow by construction for few seeds, as no resample holds a value that was not seen.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import bootstrap, norm

REPS = 2000
SEED = 0
LEVEL = 0.95
FEW = 3  # fewer values have no interval
MANY = 50  # with more, curves take a trimmed mean's own standard error: as good, and memory stays small
ROOM = 4_000_000  # resampled values in memory at once


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
    ends = (part.tolist() for part in (iqm(values), *_ends([values], iqm)))
    return [Estimate(point, low, high, len(values)) for point, low, high in zip(*ends, strict=True)]


def difference(ours: np.ndarray, theirs: np.ndarray, paired: bool) -> Estimate:
    """Of the interquartile means. Paired values, of the same seeds in the same order, are drawn together."""
    low, high = _ends([ours, theirs], lambda mine, other, axis: iqm(mine, axis) - iqm(other, axis), paired=paired)
    return Estimate(float(iqm(ours) - iqm(theirs)), float(low), float(high), min(len(ours), len(theirs)))


def improvement(ours: np.ndarray, theirs: np.ndarray) -> Estimate:
    """Probability that a run of ours beats one of theirs; ties count half."""
    source, size = np.random.RandomState(SEED), min(len(ours), len(theirs))
    if len(ours) == len(theirs):
        mine, other = source.randint(0, size, (REPS, 2, size)).swapaxes(0, 1)  # in rliable's order
    else:
        mine, other = (source.randint(0, len(some), (REPS, len(some))) for some in (ours, theirs))
    wins = (np.sign(ours[:, None] - theirs[None]) + 1) / 2
    draws = wins[mine[:, :, None], other[:, None, :]].mean((1, 2))  # sums of halves are exact in any order
    ends = np.percentile(draws, [50 * (1 - LEVEL), 50 * (1 + LEVEL)]) if size >= FEW else [np.nan, np.nan]
    return Estimate(float(wins.mean()), float(ends[0]), float(ends[1]), size)


def curve(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seeds by places: the interquartile mean at each place and the ends of its interval, NaN for too few seeds."""
    point = iqm(values)
    if len(values) > MANY:
        reach = norm.ppf((1 + LEVEL) / 2) * _standard_error(values)
        return point, point - reach, point + reach
    return point, *_ends([values], iqm, reps=500)


def _standard_error(values: np.ndarray) -> np.ndarray:
    """Of a trimmed mean: Winsorised standard deviation over the share kept. Tukey and McLaughlin 1963"""
    ordered, count = np.sort(values, axis=0), len(values)
    cut = int(0.25 * count)
    winsorised = np.clip(ordered, ordered[cut], ordered[count - cut - 1])
    return winsorised.std(0, ddof=1) / ((1 - 2 * cut / count) * np.sqrt(count))


def _ends(
    samples: Sequence[np.ndarray], statistic: Callable[..., Any], reps: int = REPS, paired: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Of the interval of a statistic along the first axis."""
    if min(map(len, samples)) < FEW:
        nothing = np.full(samples[0].shape[1:], np.nan)
        return nothing, nothing
    found = bootstrap(
        samples, statistic, n_resamples=reps, axis=0, vectorized=True, paired=paired, confidence_level=LEVEL,
        method="percentile", batch=max(1, ROOM // samples[0].size),
        random_state=np.random.RandomState(SEED),  # pyright: ignore[reportCallIssue] rng takes no RandomState
    )  # fmt: skip
    return np.asarray(found.confidence_interval.low), np.asarray(found.confidence_interval.high)
