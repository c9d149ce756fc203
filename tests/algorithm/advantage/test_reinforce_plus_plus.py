from dataclasses import replace

import pytest
import torch

from isentropic.batch import RolloutBatch, ScoredBatch

BASELINE = "algorithm=reinforce_plus_plus_baseline"


@pytest.mark.golden
@pytest.mark.parametrize("recipe", ["algorithm=reinforce_plus_plus", BASELINE])
def test_the_fixture(build, paper, recipe):
    batch, _ = paper
    advantages = build(recipe).advantage(batch)
    expected = torch.tensor([0.834523, -1.112697, 0.834523, -1.112697], dtype=torch.float64)[:, None] * batch.mask
    torch.testing.assert_close(advantages, expected, atol=2e-6, rtol=0)


@pytest.mark.golden
def test_returns_fall_with_the_tokens_still_to_come(build, paper):
    batch, _ = paper
    advantages = build("algorithm=reinforce_plus_plus", "algorithm.advantage.gamma=0.5").advantage(batch)
    returns = torch.tensor([[0.0625, 0.125, 0.25, 0.5, 1], [0] * 5, [0.25, 0.5, 1, 0, 0], [0] * 5]).double()
    valid = returns[batch.mask]
    whitened = (valid - valid.mean()) / (valid.var() + 1e-8).sqrt()
    torch.testing.assert_close(advantages[batch.mask], whitened)
    assert not advantages[~batch.mask].any()


@pytest.mark.golden
def test_the_discount_counts_the_tokens_that_the_policy_chose(build, paper):
    batch, _ = paper
    gapped = replace(batch, mask=batch.mask & (torch.arange(5) != 3))
    advantages = build("algorithm=reinforce_plus_plus", "algorithm.advantage.gamma=0.5").advantage(gapped)
    steps = advantages[0, [0, 1, 2, 4]].diff()
    torch.testing.assert_close(steps[1:] / steps[:-1], torch.full((2,), 2.0, dtype=torch.float64))


@pytest.mark.golden
def test_an_observation_does_not_start_the_return_anew(build):
    """Returns are .5 and 1 of the first row, 0 and 0 of the other: their mean is .375, their deviation .478714."""
    mask = torch.tensor([[True, False, True]] * 2)
    zero, reward = torch.zeros(2, 3, dtype=torch.float64), torch.tensor([1.0, 0.0], dtype=torch.float64)
    row = RolloutBatch(mask.long(), mask, torch.zeros(2).long(), reward, reward > 0, reward > 1, zero)
    names = ("old_logp", "old_entropy", "old_sensitivity", "ref_logp")
    batch = ScoredBatch(**vars(row), **dict.fromkeys(names, zero))
    advantages = build("algorithm=reinforce_plus_plus", "algorithm.advantage.gamma=0.5").advantage(batch)
    expected = torch.tensor([[0.125, 0.0, 0.625], [-0.375, 0.0, -0.375]]).double() / 0.478714
    torch.testing.assert_close(advantages, expected, atol=1e-5, rtol=0)


@pytest.mark.identity
def test_with_and_without_a_baseline_agree_where_there_is_one_group(build, paper):
    batch, _ = paper
    plain, centred = build("algorithm=reinforce_plus_plus").advantage(batch), build(BASELINE).advantage(batch)
    torch.testing.assert_close(plain, centred)
    split = replace(batch, group=torch.tensor([0, 0, 1, 1]), reward=torch.tensor([1.0, 0, 1, 1]))
    plain, centred = build("algorithm=reinforce_plus_plus").advantage(split), build(BASELINE).advantage(split)
    assert plain[2, 0] == plain[0, 0] > 0
    assert centred[0, 0] > centred[2, 0] == centred[3, 0] > centred[1, 0]


@pytest.mark.degenerate
@pytest.mark.parametrize("reward", [0.1, 0.7, 0.95, -0.3])
@pytest.mark.parametrize("settings", [[], ["algorithm.advantage.gamma=0.9"]])
@pytest.mark.parametrize("recipe", ["algorithm=reinforce_plus_plus", BASELINE])
def test_rewards_that_are_equal_everywhere_are_exactly_no_advantage(build, paper, recipe, settings, reward):
    batch, _ = paper
    same = replace(batch, reward=torch.full((4,), reward))
    assert not build(recipe, *settings).advantage(same).any()


@pytest.mark.degenerate
def test_one_token_one_answer_and_no_token_at_all_are_no_advantage(build, paper):
    batch, _ = paper
    estimate = build("algorithm=reinforce_plus_plus").advantage
    first = (torch.arange(4) == 0)[:, None] & (torch.arange(5) == 0)
    for mask in (first, batch.mask & (torch.arange(4) == 0)[:, None], batch.mask & False):
        assert not estimate(replace(batch, mask=mask)).any()


@pytest.mark.parametrize("gamma", [-0.1, 1.1, "nan"])
def test_a_discount_outside_0_to_1_is_refused(build, gamma):
    with pytest.raises(Exception, match=r"advantage\.gamma=.* must lie in 0 to 1"):
        build("algorithm=reinforce_plus_plus", f"algorithm.advantage.gamma={gamma}")


@pytest.mark.parametrize("recipe", ["algorithm=reinforce_plus_plus", BASELINE])
def test_the_recipes_do_not_discount_clip_at_0_2_and_average_over_tokens(build, recipe):
    algorithm = build(recipe)
    assert (algorithm.advantage.gamma, algorithm.advantage.group_baseline) == (1, recipe == BASELINE)
    assert (algorithm.clipping.low, algorithm.clipping.high) == (0.2, 0.2)
    assert type(algorithm.aggregation).__name__ == "TokenMean"
