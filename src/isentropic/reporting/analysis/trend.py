"""Does a curve still rise or fall? A slope, and the chance of one as steep where the curve is noise that remembers.

The slope's t with the Newey-West variance (Bartlett's weights over half of the values, whose own noise the bounds hold:
Kiefer and Vogelsang 2005) against bounds from simulated AR(1) noise of a memory at the upper end of what the curve
allows. Without that, noise of a memory of 0.9 is called a trend two to three times in ten.
"""

from functools import cache

import numpy as np
from scipy.signal import lfilter

DRAWS = 2000  # of noise, for each memory and length
MEMORIES = (0.9, 0.93, 0.95, 0.97, 0.99)  # at least the first, as few values tell little
LONGEST = 400  # values; more are averaged
CAUTION = 2.5  # standard errors above the memory that was estimated


def slope(steps: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Per step, and p of none; p is 1 for values that do not change, and 0 for a line without noise."""
    along = steps - steps.mean()
    incline = float((along * values).sum() / (along**2).sum())
    if not np.ptp(values) > 1e-12:
        return incline, 1.0
    few = means(values)
    rest = detrended(few[None])[0]
    if rest.std() <= 1e-9 * np.ptp(values):
        return incline, 0.0
    seen, own = float(statistic(few[None])[0]), memory(rest)
    above = [float((bounds(len(few), remembered) >= seen).mean()) for remembered in MEMORIES]
    return incline, float(np.interp(own, MEMORIES, above))


def means(values: np.ndarray) -> np.ndarray:
    """At most LONGEST values, each the mean of equally many."""
    size = -(-len(values) // LONGEST)
    return values[len(values) % size :].reshape(-1, size).mean(1)


def detrended(rows: np.ndarray) -> np.ndarray:
    along = np.arange(rows.shape[1]) - (rows.shape[1] - 1) / 2
    return rows - rows.mean(1, keepdims=True) - (rows @ along / (along @ along))[:, None] * along


def statistic(rows: np.ndarray) -> np.ndarray:
    """|t| of the slope of each row."""
    count = rows.shape[1]
    along = np.arange(count) - (count - 1) / 2
    pulls, lags = detrended(rows) * along, max(1, count // 2)
    power = np.abs(np.fft.rfft(pulls, 2 * count, axis=1)) ** 2
    covariance = np.fft.irfft(power, 2 * count, axis=1)[:, :lags]
    weights = 2 * (1 - np.arange(lags) / lags)
    weights[0] = 1
    return np.abs(rows @ along) / np.sqrt(np.maximum(covariance @ weights, 1e-300))


def memory(rest: np.ndarray) -> float:
    """Autocorrelation, as high as it may well be: beside a slope, and under white noise, one finds it too low."""
    count, whole = len(rest), float(rest @ rest)
    first, second = (float(rest[lag:] @ rest[:-lag]) / whole for lag in (1, 2))
    under_noise = second / first if first > 2 / np.sqrt(count) else 0.0
    found = (count * min(max(first, under_noise, 0.0), 1.0) + 2) / max(count - 4, 1)
    return min(found, 1.0) + CAUTION * np.sqrt(max(1 - min(found, 1.0) ** 2, 2 / count) / count)


@cache
def bounds(count: int, remembered: float) -> np.ndarray:
    noise = np.random.default_rng(count).normal(size=(DRAWS, count + 300))
    return statistic(np.asarray(lfilter([1], [1, -remembered], noise, axis=1))[:, 300:])
