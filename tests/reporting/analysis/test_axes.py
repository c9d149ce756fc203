import numpy as np
import pytest

from isentropic.reporting.analysis.axes import along
from isentropic.runs.run import find


@pytest.fixture
def run(a_run, tmp_path):
    def make(**metrics):
        metrics = {name.replace("__", "/"): values for name, values in metrics.items()}
        return find([a_run(tmp_path / "run", steps=4, metrics=metrics)])[0]

    return make


def test_rollouts_are_themselves(run):
    assert along(run(entropy__mean=[1, 1, 1, 1]), "rollouts", np.array([0, 2])).tolist() == [0, 2]


def test_logged_sums_are_read_where_they_are_asked_for(run):
    found = run(throughput__tokens=[10, 30, 40, 90], throughput__seconds=[1, 2, 3, 4])
    assert along(found, "tokens", np.array([0, 1, 4])).tolist() == [0, 10, 90]
    assert along(found, "seconds", np.array([0, 2])).tolist() == [0, 2]


def test_older_runs_are_summed_up(run):
    found = run(throughput__step_seconds=[2, 2, 4, 4], throughput__tokens_per_second=[5, 5, 10, 10])
    assert along(found, "seconds", np.array([0, 1, 4])).tolist() == [0, 2, 12]
    assert along(found, "tokens", np.array([1, 4])).tolist() == [10, 100]


def test_tokens_that_were_asked_for_and_not_kept_count(run):
    found = run(
        throughput__step_seconds=[1] * 4, throughput__tokens_per_second=[8] * 4,
        rollout__tries=[1, 2, 2, 1], rollout__filled=[1, 1, 0.5, 1],
    )  # fmt: skip
    assert along(found, "tokens", np.arange(5)).tolist() == [0, 8, 24, 56, 64]


def test_what_cannot_be_told_is_none(run):
    assert along(run(entropy__mean=[1] * 4), "tokens", np.array([1])) is None
    assert along(run(throughput__step_seconds=[1] * 4), "tokens", np.array([1])) is None
