from dataclasses import replace

import pytest
import torch


@pytest.mark.golden
@pytest.mark.parametrize("recipe, right, wrong", [("w_reinforce", 0.1, -1.0), ("psr", 1.0, 0.0), ("nsr", 0.0, -1.0)])
def test_the_fixture(build, paper, recipe, right, wrong):
    batch, _ = paper
    advantages = build(f"algorithm={recipe}").advantage(batch)
    expected = torch.tensor([right, wrong, right, wrong], dtype=torch.float64)[:, None] * batch.mask
    torch.testing.assert_close(advantages, expected, atol=2e-6, rtol=0)


@pytest.mark.identity
def test_of_0_and_1_rewards_psr_is_the_reward_and_nsr_the_reward_less_one(build, paper):
    batch, _ = paper
    reward = batch.reward[:, None].expand(4, 5)
    assert torch.equal(build("algorithm=psr").advantage(batch)[batch.mask], reward[batch.mask])
    assert torch.equal(build("algorithm=nsr").advantage(batch)[batch.mask], reward[batch.mask] - 1)


@pytest.mark.identity
def test_only_one_kind_of_answer_moves_the_policy(build, charge, paper):
    batch, now = paper
    for recipe, taught in (("psr", batch.correct), ("nsr", ~batch.correct)):
        _, gradient, _, _ = charge(build(f"algorithm={recipe}"), batch, now)
        assert gradient[taught].any(-1).all() and not gradient[~taught].any()


@pytest.mark.degenerate
def test_a_group_all_right_is_praised_and_the_shaped_reward_does_not_matter(build, paper):
    batch, _ = paper
    batch = replace(batch, correct=batch.reward >= 0, reward=torch.tensor([0.3, -1, 0, 7]))
    advantages = build("algorithm=w_reinforce").advantage(batch)
    assert (advantages[batch.mask] - 0.1).abs().max() < 1e-7 and not advantages[~batch.mask].any()


@pytest.mark.parametrize("name", ["positive", "negative"])
def test_negative_weights_are_refused(build, name):
    with pytest.raises(Exception, match=rf"{name}=-1.* may not be negative"):
        build("algorithm=w_reinforce", f"algorithm.advantage.{name}=-1")


@pytest.mark.parametrize("recipe", ["w_reinforce", "psr", "nsr"])
def test_the_recipes_clip_at_0_2_and_average_over_tokens(build, recipe):
    algorithm = build(f"algorithm={recipe}")
    assert (algorithm.clipping.low, algorithm.clipping.high) == (0.2, 0.2)
    assert type(algorithm.aggregation).__name__ == "TokenMean"
