"""How a step is cut into micro-batches, padded and ordered does not change its gradient, by any recipe.

Steps on several ranks are in test_ranks.py.
"""

from dataclasses import replace

import pytest
import torch

from isentropic.reductions import masked_mean, masked_std


@pytest.fixture
def rollouts(bigrams):
    return bigrams.rollouts()


@pytest.mark.invariance
def test_every_part_of_a_recipe_acts_here(acting, bigrams, rollouts):
    policy, batch = rollouts
    expected = bigrams.step(acting, policy, batch)[: policy.numel()]
    assert expected.abs().max() > 1e-3
    moved = {
        name: (bigrams.step(other, policy, batch)[: policy.numel()] - expected).abs().max()
        for name, other in bigrams.without(acting).items()
    }
    assert [name for name, distance in moved.items() if distance < 1e-5] == []


@pytest.mark.invariance
@pytest.mark.parametrize("certain", [0, 2])
def test_micro_batches_do_not_matter(acting, bigrams, certain):
    rollouts = bigrams.rollouts(seed=certain, certain=certain)
    cut = ((f"{size} rows", bigrams.step(acting, *rollouts, size)) for size in (1, 3, 5, 8))
    bigrams.all_close(bigrams.step(acting, *rollouts), cut)


@pytest.mark.invariance
def test_padding_does_not_matter(acting, bigrams, rollouts):
    policy, batch = rollouts
    padded = (
        (f"{before} columns of {garbage} before, {after} after", bigrams.step(acting, policy, wide, garbage=garbage))
        for before, after in [(0, 1), (0, 9), (1, 0), (9, 0), (2, 3)]
        for garbage in (-30.0, torch.inf, torch.nan)
        for wide in [bigrams.padded(batch, before, after, garbage)]
    )
    bigrams.all_close(bigrams.step(acting, policy, batch), padded)


@pytest.mark.invariance
def test_garbage_in_the_padding_gets_no_gradient(acting, bigrams, rollouts):
    policy, batch = rollouts
    readings = "sampler_logp", "old_logp", "old_entropy", "old_sensitivity", "ref_logp"

    def gradients():
        for garbage in (-30.0, torch.inf, -torch.inf, torch.nan):
            dirty = {name: getattr(batch, name).masked_fill(~batch.mask, garbage) for name in readings}
            gradient, _ = bigrams.gradient(acting, policy, replace(batch, **dirty), garbage)
            assert not (gradient[:, ~batch.mask] != 0).any(), garbage
            yield garbage, gradient

    bigrams.all_close(bigrams.gradient(acting, policy, batch)[0], gradients())


@pytest.mark.invariance
def test_what_is_observed_between_turns_does_not_matter(acting, bigrams, rollouts):
    policy, batch = rollouts
    now = bigrams.read(policy, batch)
    expected, divisor = bigrams.gradient(acting, policy, batch, now=now)

    def gradients():
        for place, width in [(1, 3), (3, 1), (4, 9)]:
            for garbage in (-30.0, torch.nan):
                wide = [bigrams.holed(record, place, width, garbage) for record in (batch, now)]
                gradient, other = bigrams.gradient(acting, policy, wide[0], now=wide[1])
                here = f"{width} columns of {garbage} at {place}"
                assert (gradient[:, :, place : place + width] == 0).all() and divisor == other, here
                yield here, torch.cat([gradient[:, :, :place], gradient[:, :, place + width :]], 2)

    bigrams.all_close(expected, gradients())


@pytest.mark.invariance
@pytest.mark.parametrize("certain", [0, 2])
def test_order_of_rows_and_groups_does_not_matter(acting, bigrams, certain):
    policy, batch = bigrams.rollouts(seed=certain, certain=certain)
    expected = bigrams.step(acting, policy, batch)
    for order in torch.randperm(16, generator=torch.Generator().manual_seed(1)), torch.arange(16).roll(4):
        shuffled = batch[order]
        bigrams.close(bigrams.step(acting, policy, replace(shuffled, group=7 - shuffled.group)), expected)


def with_a_group_of(bigrams, reward):
    """Three groups, and a fourth whose answers are all worth the same."""
    return bigrams.rollouts(rewards=(*bigrams.MIXED[:3], (reward,) * 4))


def pushes(bigrams, algorithm, policy, *batches):
    """The gradient at each token times what the loss was divided by, under the drive of the first batch."""
    drive = bigrams.driven(algorithm, batches[0])
    return [torch.mul(*bigrams.gradient(algorithm, policy, batch, drive=drive)) for batch in batches]


def what_is_added_is_shared_by_more(bigrams, algorithm, policy, batch):
    """EntroPIC adds a mean over probable tokens to a mean over all: their share of the tokens scales it."""
    algorithm = replace(algorithm, clipping=bigrams.UNCLIPPED)
    added, alone = [
        with_it - without
        for with_it, without in zip(
            pushes(bigrams, algorithm, policy, batch, batch[:12]),
            pushes(bigrams, replace(algorithm, credit={}), policy, batch, batch[:12]),
            strict=True,
        )
    ]
    assert (added[:, 12:] == 0).all()
    scale = added[:, :12][alone.abs() > 1e-3] / alone[alone.abs() > 1e-3]
    torch.testing.assert_close(scale, scale.mean().expand_as(scale), atol=0, rtol=1e-4)


@pytest.mark.invariance
@pytest.mark.parametrize("reward", [1.0, 0.0, 0.7])
def test_a_group_without_spread_only_adds_to_the_denominator(recipe, acting, bigrams, reward):
    """... unless it is of a recipe without a baseline, or of one whose thresholds or means are over all tokens."""
    policy, batch = with_a_group_of(bigrams, reward)
    if recipe == "entro_pic":
        return what_is_added_is_shared_by_more(bigrams, acting, policy, batch)
    whole, others, own = pushes(bigrams, acting, policy, batch, batch[:12], batch[12:])
    if recipe in bigrams.RECENTRED:
        advantages = acting.advantage(batch)
        bigrams.close(masked_mean(advantages, batch.mask), torch.tensor(0.0))
        assert masked_std(advantages, batch.mask, unbiased=True).item() == pytest.approx(1, abs=1e-5)
    elif recipe in bigrams.RANKED:  # the others' tokens come and go, but weigh the same
        both = (whole[:, :12] != 0) & (others != 0)
        assert (whole[:, 12:] == 0).all()
        assert both.any()
        bigrams.close(whole[:, :12][both], others[both])
    elif recipe == "kl_cov":  # ties come and go; each is worth its weight, 1, either way
        distance = (whole - torch.cat([others, own], 1)).abs()
        bigrams.close(distance, (distance > 0.5).float())
    else:
        bigrams.close(whole, torch.cat([others, own], 1))
        assert recipe in bigrams.PUSHED or acting.penalty or (own == 0).all()


@pytest.mark.invariance
@pytest.mark.parametrize("reward", [1.0, 0.0])
@pytest.mark.parametrize("recipe", ["nsr", "psr", "w_reinforce"], indirect=True)
def test_without_a_baseline_such_a_group_is_pushed_by_its_verdict(recipe, acting, bigrams, reward):
    policy, batch = with_a_group_of(bigrams, reward)
    (own,) = pushes(bigrams, replace(acting, clipping=bigrams.UNCLIPPED), policy, batch[12:])
    direction = bigrams.PUSHED[recipe][int(reward)]
    assert (-own[0].sign() == torch.where(batch.mask[12:], direction, 0)).all()
