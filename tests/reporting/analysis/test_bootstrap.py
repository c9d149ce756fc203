import numpy as np
import pytest

from isentropic.reporting.analysis import bootstrap
from isentropic.reporting.analysis.bootstrap import curve, difference, improvement, intervals, iqm

SOME = np.random.default_rng(1)


def theirs(scores, function):
    """rliable's own loop, drawing from the same seed."""
    library = pytest.importorskip("rliable.library")
    np.random.seed(bootstrap.SEED)
    points, ends = library.get_interval_estimates({"x": scores}, function, reps=bootstrap.REPS)
    return [float(points["x"][0]), *ends["x"].ravel().tolist()]


@pytest.mark.parity
@pytest.mark.parametrize("count", [3, 5, 8])
def test_intervals_are_those_of_rliable(count):
    metrics = pytest.importorskip("rliable.metrics")
    values = SOME.random(count)
    (ours,) = intervals(values[:, None])
    assert [*ours[:3]] == pytest.approx(
        theirs(values[:, None], lambda s: np.array([metrics.aggregate_iqm(s)])), abs=1e-12
    )


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_probability_of_improvement_is_that_of_rliable():
    metrics = pytest.importorskip("rliable.metrics")
    x, y = SOME.random(4), SOME.random(4)

    def function(a, b):
        return np.array([metrics.probability_of_improvement(a, b)])

    assert [*improvement(x, y)[:3]] == pytest.approx(theirs((x[:, None], y[:, None]), function), abs=1e-12)


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    assert iqm(np.array([1.0, 2, 3, 100])) == 2.5
    assert iqm(np.array([0.0, 1, 2, 3, 4, 5, 6, 700])) == 3.5
    assert iqm(np.array([1.0, 2, 6])) == 3  # of three there is no quarter to leave out
    assert iqm(np.array([[1.0, 5], [3, 7]]), axis=1).tolist() == [3, 5]


def test_two_values_have_no_interval():
    (one,) = intervals(np.array([[0.2], [0.4]]))
    assert one.point == pytest.approx(0.3) and np.isnan(one.low) and one.size == 2
    assert np.isnan(curve(np.array([[0.2, 0.1], [0.4, 0.3]]))[1]).all()


def test_many_columns_are_as_one_by_one():
    values = SOME.random((5, 450))
    assert intervals(values)[-1] == intervals(values[:, -1:])[0]


def test_pairs_that_are_drawn_together_cancel_what_seeds_share():
    seeds = np.array([0.1, 0.5, 0.9, 0.3, 0.7])
    together, apart = (difference(seeds + 0.05, seeds, paired) for paired in (True, False))
    assert together.point == apart.point == pytest.approx(0.05)
    assert together.low == pytest.approx(0.05) and together.high == pytest.approx(0.05)
    assert apart.low < 0 < apart.high


def test_a_run_beats_another_or_half_if_they_are_equal():
    assert improvement(np.array([1.0, 2, 3]), np.array([0.0, 0, 0]))[:3] == (1, 1, 1)
    assert improvement(np.array([1.0, 1, 1]), np.array([1.0, 1, 1, 1])).point == 0.5


def test_with_many_seeds_the_standard_error_does_what_the_bootstrap_does(monkeypatch):
    values = SOME.normal(size=(60, 40))
    quick = curve(values)
    monkeypatch.setattr(bootstrap, "MANY", 100)
    slow = curve(values)
    assert np.array_equal(quick[0], slow[0])
    widths = [float((high - low).mean()) for _, low, high in (quick, slow)]
    assert widths[0] == pytest.approx(widths[1], rel=0.05)
