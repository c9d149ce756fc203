from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.advantage.opo import Opo


@pytest.mark.golden
def test_the_fixture(build, paper):
    batch, _ = paper
    advantages = build("algorithm=opo").advantage(batch)  # lengths 5, 4, 3, 2: the baseline is 8 / 14
    expected = torch.tensor([0.428571, -0.571429, 0.428571, -0.571429], dtype=torch.float64)[:, None] * batch.mask
    torch.testing.assert_close(advantages, expected, atol=2e-6, rtol=0)


@pytest.mark.golden
def test_groups_do_not_see_each_other(paper):
    batch, _ = paper
    batch = replace(batch, group=torch.tensor([7, 2, 2, 7]), reward=torch.tensor([1.0, 0, 1, 0]))
    assert Opo()(batch)[:, 0].tolist() == pytest.approx([2 / 7, -3 / 7, 4 / 7, -5 / 7])


@pytest.mark.identity
def test_answers_of_one_length_are_held_against_the_plain_mean(build, paper):
    batch, _ = paper
    batch = replace(batch, mask=torch.arange(5).expand(4, 5) < 2)
    dr_grpo = build("algorithm=dr_grpo").advantage
    torch.testing.assert_close(build("algorithm=opo").advantage(batch), dr_grpo(batch))


@pytest.mark.degenerate
@pytest.mark.parametrize("reward", [0.1, 0.7, 0.95, -0.3])
def test_answers_of_equal_worth_have_exactly_no_advantage(paper, reward):
    batch, _ = paper
    assert not Opo()(replace(batch, reward=torch.full((4,), reward))).any()


@pytest.mark.degenerate
def test_answers_without_a_token_have_no_weight(paper):
    batch, _ = paper
    batch = replace(batch, mask=batch.mask & (torch.arange(4) > 1)[:, None])
    advantages = Opo()(batch)
    assert advantages[2, 0] == pytest.approx(0.4) and advantages[3, 0] == pytest.approx(-0.6)
    assert not Opo()(replace(batch, mask=batch.mask & False)).any()


def test_the_recipe_clips_at_0_2_and_averages_over_tokens(build):
    algorithm = build("algorithm=opo")
    assert (algorithm.clipping.low, algorithm.clipping.high) == (0.2, 0.2)
    assert type(algorithm.aggregation).__name__ == "TokenMean"
