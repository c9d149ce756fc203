from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isentropic.algorithm.advantage.rloo import Rloo


@pytest.mark.golden
def test_the_fixture(build, paper):
    batch, _ = paper
    advantages = build("algorithm=rloo").advantage(batch)
    expected = torch.tensor([2.0, -2, 2, -2], dtype=torch.float64)[:, None] / 3 * batch.mask
    torch.testing.assert_close(advantages, expected, atol=2e-6, rtol=0)


@pytest.mark.golden
def test_the_reward_against_the_others_by_hand(paper):
    batch, _ = paper
    batch = replace(batch, reward=torch.tensor([1.0, 0, 5, 2]), group=torch.tensor([3, 3, 9, 3]))
    assert Rloo()(batch)[:, 0].tolist() == [0, -1.5, 0, 1.5]  # an answer without peers has no baseline


@pytest.mark.identity
@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(-8, 8).map(float), min_size=2, max_size=8))
def test_it_is_the_reward_less_the_mean_of_the_others(rewards):
    advantages = Rloo()(batch_of(rewards))[:, 0].tolist()
    others = [(sum(rewards) - reward) / (len(rewards) - 1) for reward in rewards]
    assert advantages == pytest.approx([r - o for r, o in zip(rewards, others, strict=True)], abs=1e-5)


@pytest.mark.degenerate
@pytest.mark.parametrize("reward", [0.1, 0.7, 0.95, -0.3])
def test_answers_of_equal_worth_have_exactly_no_advantage(reward):
    assert not Rloo()(batch_of([reward] * 8)).any()


def batch_of(rewards):
    from isentropic.batch import ScoredBatch

    rows = len(rewards)
    reward, blank, mask = torch.tensor(rewards), torch.zeros(rows, 2), torch.ones(rows, 2, dtype=torch.bool)
    group = torch.zeros(rows, dtype=torch.long)
    return ScoredBatch(mask.long(), mask, group, reward, reward > 0, reward > 9, blank, blank, blank, blank, blank)


def test_the_recipe_clips_at_0_2_and_averages_over_tokens(build):
    algorithm = build("algorithm=rloo")
    assert (algorithm.clipping.low, algorithm.clipping.high) == (0.2, 0.2)
    assert type(algorithm.aggregation).__name__ == "TokenMean"
