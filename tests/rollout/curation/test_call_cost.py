import pytest
import torch

from isentropic.batch import RolloutBatch
from isentropic.rollout.curation.call_cost import CallCost


def batch(reward, calls):
    mask, reward = torch.ones(len(calls), 2).bool(), torch.tensor(reward)
    group = torch.zeros(len(calls), dtype=torch.long)
    return RolloutBatch(mask.long(), mask, group, reward, reward > 0, reward > 1, mask * 0.0, calls=torch.tensor(calls))


@pytest.mark.golden
def test_each_call_takes_its_cost_off_and_a_right_answer_never_earns_less_than_a_wrong_one():
    rows = batch([1.0, 1.0, 1.0, 0.0, 0.0], [0, 2, 40, 0, 40])
    charged = CallCost(cost=0.1, wrong=0.0)(rows).reward
    torch.testing.assert_close(charged, torch.tensor([1.0, 0.8, 0.0, 0.0, 0.0]))
    assert rows.reward.tolist() == [1, 1, 1, 0, 0]


def test_what_earns_less_than_a_wrong_answer_is_left_where_it_is():
    charged = CallCost(cost=0.5, wrong=-1.0)(batch([1.0, -1.0, -1.5], [1, 3, 3])).reward
    assert charged.tolist() == [0.5, -1.0, -1.5]


def test_answers_without_a_call_pay_nothing_whatever_the_cost():
    mask = torch.ones(2, 3).bool()
    reward = torch.tensor([1.0, 0.0])
    rows = RolloutBatch(mask.long(), mask, mask[:, 0].long(), reward, reward > 0, reward > 1, mask * 0.0)
    assert torch.equal(CallCost(cost=9.0, wrong=0.0)(rows).reward, reward)


def test_a_cost_that_would_pay_for_calls_is_refused():
    with pytest.raises(ValueError, match=r"call_cost\.cost=-0\.1 is taken off the reward"):
        CallCost(cost=-0.1, wrong=0.0)
