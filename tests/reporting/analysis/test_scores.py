import pytest

from isentropic.reporting.analysis.groups import group
from isentropic.reporting.analysis.scores import final, measured, scores, title
from isentropic.runs.run import find


def test_scores_are_at_the_last_evaluation_and_over_the_last_tenth(a_run, tmp_path):
    folder = a_run(tmp_path / "run", metrics={"entropy/mean": [0.5] * 36 + [0.1, 0.2, 0.3, 0.4]})
    (run,) = find([folder])
    assert final(run, "eval/avg@8") == 0.4 and final(run, "entropy/mean") == pytest.approx(0.25)
    assert final(run, "eval/pass@16") is None
    assert measured([run]) == ["eval/avg@8", "entropy/mean"]


def test_without_evaluations_the_reward_is_the_score(a_run, tmp_path):
    (run,) = find([a_run(tmp_path / "run", metrics={"rollout/reward": [0.5] * 40}, scores={})])
    assert measured([run]) == ["rollout/reward"] and title("rollout/reward") == "reward at the end"


def test_a_score_that_turned_nan_is_none(a_run, tmp_path):
    (run,) = find([a_run(tmp_path / "run", scores={"eval/avg@8": [0.2, float("nan")]})])
    assert final(run, "eval/avg@8") is None


def test_each_group_and_metric_has_its_seeds(sweep):
    groups = group(find([sweep()])).groups
    found = scores(groups, lambda run: run.seed != 1)
    assert [(one.group.label, one.metric) for one in found[:3]] == [
        ("grpo", "eval/avg@8"),
        ("stare", "eval/avg@8"),
        ("grpo", "eval/pass@16"),
    ]
    assert found[0].seeds == [0, 2] and found[0].values == pytest.approx([0.4, 0.422])
    assert found[0].estimate.point == pytest.approx(0.411) and found[0].estimate.size == 2
