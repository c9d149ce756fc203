import math
from dataclasses import replace

import pytest
import torch

GRPO_S = "algorithm=grpo_s"
NO_CEILING = "algorithm.clipping.ceiling=inf"
POPULATION = "algorithm.advantage.unbiased=false"


@pytest.mark.golden
@pytest.mark.parametrize(
    "settings, expected",
    [
        ([], [0.846209, -0.875199, 0.885567, -0.856577]),
        ([POPULATION], [0.977117, -1.010592, 1.022565, -0.989090]),
    ],
)
def test_the_fixture(build, paper, settings, expected):
    batch, _ = paper
    advantages = build(GRPO_S, *settings).advantage(batch)
    expected = torch.tensor(expected, dtype=torch.float64)[:, None] * batch.mask
    torch.testing.assert_close(advantages, expected, atol=2e-6, rtol=0)


@pytest.mark.golden
@pytest.mark.parametrize("settings, expected", [([], 0.628041), ([POPULATION], 0.725199)])
def test_the_loss_of_the_fixture(build, charge, paper, settings, expected):
    loss, _, _, _ = charge(build(GRPO_S, NO_CEILING, *settings), *paper)
    assert loss == pytest.approx(expected, abs=2e-6)


@pytest.mark.golden
def test_the_gradient_of_the_fixture(build, charge, paper):
    _, gradient, _, _ = charge(build(GRPO_S, NO_CEILING), *paper)
    assert gradient[0].tolist() == pytest.approx([-0.043251, -0.052888, -0.059235, -0.028207, -0.042310], abs=2e-6)


@pytest.mark.golden
def test_the_shaped_rewards_by_their_distances(build, paper):
    # z-scores keep ratios of distances, whatever they are divided by
    batch, _ = paper
    shaped = torch.tensor([1.075000, -1.111828, 1.125000, -1.088172], dtype=torch.float64)
    advantage = build(GRPO_S).advantage(batch)[:, 0]
    torch.testing.assert_close(advantage.diff() / advantage.diff()[0], shaped.diff() / shaped.diff()[0])


@pytest.mark.identity
def test_without_a_bonus_it_is_grpo_of_the_verdict(build, paper):
    batch, _ = paper
    advantages = build(GRPO_S, "algorithm.advantage.bonus=0").advantage(batch)
    signed = replace(batch, reward=torch.where(batch.correct, 1.0, -1.0).double())
    torch.testing.assert_close(advantages, build("algorithm=grpo").advantage(signed))


@pytest.mark.invariance
def test_groups_do_not_see_each_other(build, paper):
    batch, _ = paper
    two = batch[torch.tensor([0, 3, 1, 2, 3, 0])]
    two = replace(two, group=torch.tensor([4, 1, 4, 4, 4, 1]))
    estimate = build(GRPO_S).advantage
    torch.testing.assert_close(estimate(two)[[0, 2, 3, 4]], estimate(batch))


@pytest.mark.degenerate
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, -30.0])
def test_padding_may_hold_anything(build, paper, garbage):
    batch, _ = paper
    dirty = replace(batch, old_entropy=batch.old_entropy.masked_fill(~batch.mask, garbage))
    assert torch.equal(build(GRPO_S).advantage(dirty), build(GRPO_S).advantage(batch))


@pytest.mark.degenerate
@pytest.mark.parametrize("entropy", [0.0, 0.7, -1e-7, math.nan])
@pytest.mark.parametrize("correct", [True, False])
def test_a_group_all_right_or_all_wrong_has_exactly_no_advantage(build, paper, entropy, correct):
    batch, _ = paper
    estimate = build(GRPO_S).advantage
    same = replace(batch, correct=torch.full((4,), correct))
    assert not estimate(same).any()
    assert not estimate(replace(same, old_entropy=torch.full((4, 5), entropy))).any()


@pytest.mark.degenerate
def test_one_answer_and_answers_without_tokens(build, paper):
    batch, _ = paper
    estimate = build(GRPO_S).advantage
    assert not estimate(batch[:1]).any()
    assert not estimate(replace(batch, mask=batch.mask & False)).any()
    silent = replace(batch, mask=batch.mask & (torch.arange(4) > 0)[:, None])
    torch.testing.assert_close(estimate(silent)[1:], estimate(batch[1:]))


@pytest.mark.degenerate
def test_an_unknown_entropy_is_left_out_of_the_mean_and_an_answer_of_none_gets_the_base(build, paper):
    batch, _ = paper
    estimate = build(GRPO_S).advantage
    unknown = batch.old_entropy.clone()
    unknown[0, 1:] = math.nan  # leaves 0.3
    known = batch.old_entropy.clone()
    known[0] = 0.3
    expected = estimate(replace(batch, old_entropy=known))
    torch.testing.assert_close(estimate(replace(batch, old_entropy=unknown)), expected)
    unknown[0] = math.nan
    advantages = estimate(replace(batch, old_entropy=unknown))[:, 0]
    assert 0 < advantages[0] < advantages[2] and (advantages[[1, 3]] < 0).all()


def test_negative_shares_are_refused(build):
    with pytest.raises(Exception, match=r"bonus=-0\.1 are shares and may not be negative"):
        build(GRPO_S, "algorithm.advantage.bonus=-0.1")
