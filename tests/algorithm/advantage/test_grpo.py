import math
from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.advantage.grpo import Grpo


def rewarded(paper, *reward):
    batch, _ = paper
    return replace(batch, reward=torch.tensor(reward, dtype=torch.float32))


def test_one_right_answer_of_four(paper):
    advantages = Grpo(divide_by_std=True)(rewarded(paper, 1, 0, 0, 0))
    expected = torch.tensor([1.499997, -0.499999, -0.499999, -0.499999])
    torch.testing.assert_close(advantages[:, 0], expected, atol=1e-6, rtol=0)


def test_half_right_without_the_spread(paper):
    assert Grpo(divide_by_std=False)(rewarded(paper, 1, 0, 1, 0))[:, 0].tolist() == [0.5, -0.5, 0.5, -0.5]


def test_shaped_rewards(paper):
    advantages = Grpo(divide_by_std=True)(rewarded(paper, 0.5, -1, 1, -1.25))
    expected = torch.tensor([0.621425, -0.734412, 1.073371, -0.960385])
    torch.testing.assert_close(advantages[:, 0], expected, atol=1e-6, rtol=0)


def test_every_token_of_an_answer_has_its_advantage_and_padding_none(paper):
    batch, _ = paper
    advantages = Grpo(divide_by_std=True)(batch)
    assert (advantages[~batch.mask] == 0).all()
    assert (advantages.abs()[batch.mask] - math.sqrt(0.75)).abs().max() < 2e-6


@pytest.mark.parametrize("divide_by_std", [True, False])
@pytest.mark.parametrize("reward", [0.1, 0.7, 0.95, -0.3])
def test_answers_of_equal_worth_have_exactly_no_advantage(paper, divide_by_std, reward):
    advantages = Grpo(divide_by_std)(rewarded(paper, *[reward] * 4))
    assert torch.equal(advantages, torch.zeros_like(advantages))


def test_groups_do_not_see_each_other(paper):
    batch = replace(rewarded(paper, 1, 0, 5, 1), group=torch.tensor([3, 3, 9, 9]))
    assert Grpo(divide_by_std=False)(batch)[:, 0].tolist() == [0.5, -0.5, 2, -2]
