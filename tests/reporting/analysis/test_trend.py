import numpy as np
import pytest
from scipy.signal import lfilter

from isentropic.reporting.analysis.trend import LONGEST, means, slope

STEPS = np.arange(130)


def noise(draw, memory, count, length=130):
    return lfilter([1], [1, -memory], draw.normal(size=(count, length + 300)), axis=1)[:, 300:]


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8, 0.9, 0.95])
def test_noise_that_remembers_is_seldom_a_trend(memory):
    """At one in twenty, 200 draws should hold ten; more than 19 have a chance of 2 in a thousand."""
    found = [slope(STEPS, row)[1] < 0.05 for row in noise(np.random.default_rng(3), memory, 200)]
    assert sum(found) <= 19


@pytest.mark.parametrize("memory", [0.0, 0.5])
def test_a_trend_in_noise_is_found(memory):
    rows = noise(np.random.default_rng(4), memory, 50)
    rows = rows + np.linspace(0, 4 * rows.std(), 130)
    assert sum(slope(STEPS, row)[1] < 0.05 for row in rows) >= 45


def test_a_line_is_a_trend_and_a_level_is_none():
    assert slope(STEPS, 0.3 - 0.002 * STEPS) == (pytest.approx(-0.002), 0)
    assert slope(STEPS, np.full(130, 0.3))[1] == 1
    assert slope(2 * STEPS, 0.3 - 0.002 * STEPS)[0] == pytest.approx(-0.001)


def test_long_curves_are_averaged_and_keep_their_slope():
    assert len(means(np.arange(4 * LONGEST + 3.0))) <= LONGEST
    steps = np.arange(5000)
    found = slope(steps, 0.001 * steps + np.random.default_rng(0).normal(size=5000))
    assert found[0] == pytest.approx(0.001, rel=0.05) and found[1] < 0.05
