import pytest
import torch

from isentropic.batch import RolloutBatch
from isentropic.rollout.curation.outcome import Outcome


def batch(reward, correct):
    rows = len(reward)
    mask, blank = torch.ones(rows, 2, dtype=torch.bool), torch.zeros(rows, 2)
    verdict, group = torch.tensor(correct, dtype=torch.bool), torch.zeros(rows, dtype=torch.long)
    return RolloutBatch(mask.long(), mask, group, torch.tensor(reward), verdict, ~verdict, blank)


def test_the_verdict_alone_is_paid():
    rollouts = batch([1.0, 0.0, 0.3, -2.0], [1, 0, 0, 1])
    paid = Outcome(right=1.0, wrong=-1.0)(rollouts)
    assert paid.reward.tolist() == [1, -1, -1, 1]
    assert rollouts.reward[3] == -2
    assert all(torch.equal(getattr(paid, name), value) for name, value in vars(rollouts).items() if name != "reward")


def test_a_batch_without_answers_stays_empty():
    assert Outcome(right=1.0, wrong=-1.0)(batch([1.0], [1])[:0]).reward.shape == (0,)


@pytest.mark.parametrize("wrong", [1.0, 2.0, float("nan")])
def test_wrong_may_not_be_worth_as_much_as_right(wrong):
    with pytest.raises(ValueError, match=f"right=1.0 must be above outcome.wrong={wrong}"):
        Outcome(right=1.0, wrong=wrong)
