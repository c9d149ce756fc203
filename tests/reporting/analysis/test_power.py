import math

import numpy as np
import pytest
from scipy.stats import nct, t

from isentropic.reporting.analysis.estimate import changes
from isentropic.reporting.analysis.power import findable


@pytest.mark.golden
def test_the_power_of_a_t_test_is_that_of_cohen_s_tables():
    """64 of each of two groups find half a deviation and 63 do not, and 34 pairs; 26 and 15 find 0.8."""
    assert findable(64, 64, False) <= 0.5 < findable(63, 63, False) and findable(26, 26, False) <= 0.8
    assert findable(34, 34, True) <= 0.5 < findable(33, 33, True) and findable(15, 15, True) <= 0.8 < findable(
        14, 14, True
    )


@pytest.mark.parity
@pytest.mark.parametrize("size, paired", [(5, True), (8, False), (30, True)])
def test_it_is_where_the_noncentral_t_has_80_percent(size, paired):
    free, unit = (size - 1, size**-0.5) if paired else (2 * size - 2, (2 / size) ** 0.5)
    assert nct.sf(t.isf(0.025, free), free, findable(size, size, paired) / unit) == pytest.approx(0.8, abs=1e-3)


@pytest.mark.parametrize("paired", [True, False])
def test_what_can_be_found_is_found_four_times_in_five(paired):
    draw = np.random.default_rng(0)
    away = findable(5, 5, paired) * (2**0.5 if paired else 1)
    ours, theirs = draw.normal(away, 1, (5, 4000)), draw.normal(size=(5, 4000))
    wide = 4 * (0.8 * 0.2 / 4000) ** 0.5 + (0 if paired else 0.03)  # Welch's loses a little
    assert (changes(ours, theirs, paired).p < 0.05).mean() == pytest.approx(0.8, abs=wide)


def test_more_comparisons_and_fewer_seeds_find_less():
    assert findable(5, 5, True) < findable(5, 5, True, 12) < findable(4, 4, True, 12) < findable(3, 3, True, 36)
    assert math.isinf(findable(1, 5, False)) and findable(3, 3, True, 10_000) < 1e4
