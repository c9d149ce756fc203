"""What a curve is smoothed by, and how near its target it has to be."""

import numpy as np

BAND = 0.2  # of the target, on either side


def smooth(values: np.ndarray) -> np.ndarray:
    """A running mean over a thirtieth of the run on either side, as far as the run goes."""
    count = len(values)
    reach, sums, place = count // 30, np.concatenate([[0.0], np.cumsum(values)]), np.arange(count)
    first, end = np.maximum(place - reach, 0), np.minimum(place + reach + 1, count)
    return (sums[end] - sums[first]) / (end - first)
