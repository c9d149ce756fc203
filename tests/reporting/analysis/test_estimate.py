import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_ind, ttest_rel

from isentropic.reporting.analysis.estimate import changes, curve, holm, intervals

SOME = np.random.default_rng(1)


@pytest.mark.parity
@pytest.mark.parametrize("count", [3, 5, 8])
def test_the_interval_of_a_mean_is_student_s(count):
    values = SOME.random(count)
    (ours,) = intervals(values[:, None])
    assert ours.point == pytest.approx(values.mean()) and ours.size == count
    assert [*ours[1:3]] == pytest.approx([*ttest_1samp(values, 0).confidence_interval()])


@pytest.mark.golden
def test_three_pairs_that_lie_wide_apart_have_a_wide_interval():
    """Single seeds .526, .583, .488 against .503, .497, .491: not [-.003, .086], which is their range."""
    found = changes(np.array([0.526, 0.583, 0.488]), np.array([0.503, 0.497, 0.491]), paired=True)
    assert [float(x) for x in found[:4]] == pytest.approx([0.0353, -0.0784, 0.1490, 0.313], abs=2e-3)


@pytest.mark.parametrize("paired", [True, False])
def test_an_interval_holds_zero_where_its_test_finds_nothing_and_nowhere_else(paired):
    ours, theirs = SOME.normal(0.6, 1, (5, 400)), SOME.normal(size=(5, 400))
    found = changes(ours, theirs, paired)
    assert np.array_equal((found.low > 0) | (found.high < 0), found.p < 0.05) and 20 < (found.p < 0.05).sum() < 380
    test = ttest_rel(ours, theirs) if paired else ttest_ind(ours, theirs, equal_var=False)
    assert found.p == pytest.approx(test.pvalue) and found.point == pytest.approx(ours.mean(0) - theirs.mean(0))


def test_two_values_have_no_interval():
    (one,) = intervals(np.array([[0.2], [0.4]]))
    assert one.point == pytest.approx(0.3) and np.isnan(one.low) and one.size == 2
    assert np.isnan(curve(np.array([[0.2, 0.1], [0.4, 0.3]]))[1]).all()
    assert np.isnan(changes(np.array([0.2, 0.4]), np.array([0.1, 0.2, 0.3]), paired=False).p)


def test_many_columns_are_as_one_by_one():
    values = SOME.random((5, 450))
    assert intervals(values)[-1] == intervals(values[:, -1:])[0]


def test_pairs_cancel_what_seeds_share():
    seeds = np.array([0.1, 0.5, 0.9, 0.3, 0.7])
    together, apart = (changes(seeds + 0.05 + seeds**2 / 100, seeds, paired) for paired in (True, False))
    assert together.point == pytest.approx(apart.point) and together.low > 0 > apart.low


@pytest.mark.parametrize("paired", [True, False])
def test_what_has_no_spread_but_rounding_has_no_interval(paired):
    level = np.full(5, 0.1) if not paired else np.array([0.1, 0.5, 0.9, 0.3, 0.7])
    found = changes(level + 0.2, level, paired)
    assert found.point == pytest.approx(0.2) and np.isnan([found.low, found.high, found.p, found.spread]).all()


def test_holm_takes_the_least_chance_times_all_and_never_falls():
    assert holm(np.array([0.04, 0.01, np.nan, 0.03]), 4) == pytest.approx([0.09, 0.04, np.nan, 0.09], nan_ok=True)
    assert holm(np.array([[0.5, 0.6], [0.01, 0.2]]), 10).tolist() == pytest.approx(np.array([[1, 1], [0.1, 1]]))
