import numpy as np
import pytest

from isentropic.reporting.analysis.groups import group
from isentropic.reporting.analysis.learning_curves import line, trace
from isentropic.runs.run import find


def drawn(folder, metric, axis="rollouts"):
    (one,) = group(find([folder])).groups
    return line(one, one.runs, metric, axis)


def test_evaluations_stay_where_they_are(a_run, tmp_path):
    for seed in range(3):
        a_run(tmp_path / str(seed), seed=seed)
    found = drawn(tmp_path, "eval/avg@8")
    assert found.place.tolist() == [0, 40] and found.point == pytest.approx([0.2, 0.41])
    assert found.low[1] == pytest.approx(0.41 - 4.303 * 0.01 / 3**0.5, abs=1e-5) and found.high[0] == pytest.approx(0.2)
    assert found.count == 3


def test_two_seeds_have_a_line_and_no_band(a_run, tmp_path):
    for seed in range(2):
        a_run(tmp_path / str(seed), seed=seed)
    found = drawn(tmp_path, "eval/avg@8")
    assert np.isnan(found.low).all() and len(found.seeds) == 2


def test_a_line_ends_where_the_first_of_its_runs_does(a_run, tmp_path):
    for seed, steps in enumerate((40, 60)):
        a_run(tmp_path / str(seed), seed=seed, steps=steps, config={"rollout": {"steps": 60}})
    found = drawn(tmp_path, "entropy/mean")
    assert (found.place[0], found.place[-1]) == (1, 40)


def test_at_equal_cost_runs_are_compared_where_both_have_spent_as_much(a_run, tmp_path):
    for seed, cost in enumerate((10.0, 20.0)):
        spent = [cost * (i + 1) for i in range(40)]
        metrics = {"entropy/mean": [0.01 * (i + 1) for i in range(40)], "throughput/tokens": spent}
        a_run(tmp_path / str(seed), seed=seed, metrics=metrics)
    found = drawn(tmp_path, "entropy/mean", "tokens")
    assert (found.place[0], found.place[-1]) == (20, 400)
    middle = np.interp(200, found.place, found.point)
    assert middle == pytest.approx((0.20 + 0.10) / 2, rel=0.02)  # rollout 20 of the one, 10 of the other


def test_what_nobody_logged_is_no_line(a_run, tmp_path):
    run = find([a_run(tmp_path / "run")])[0]
    assert drawn(tmp_path, "rollout/reward") is None and trace(run, "entropy/mean", "tokens") is None
