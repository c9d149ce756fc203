"""Weights and masks for a sampler whose log-probs are not the trainer's, against verl's own."""

from dataclasses import replace

import pytest

pytestmark = pytest.mark.parity

CLIPS = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28, "clip_ratio_c": 10.0}

# Our override, and verl's level and threshold of the same weights.
WEIGHTS = {
    "tis": (["algorithm=tis"], "token", 2.0),
    "ice_pop": (["algorithm=ice_pop"], "token", "0.5_5.0"),
    "sequence_importance": (["algorithm=dapo", "algorithm/credit=[sequence_importance]"], "sequence", 2.0),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_are_verls(build, charge, verl_loss, rollout_corr, agree, a_step, name):
    overrides, level, threshold = WEIGHTS[name]
    batch, now = a_step
    algorithm = build(*overrides)
    loss, gradient, _, _ = charge(algorithm, batch, now)
    weights, _ = rollout_corr.compute_rollout_correction_weights(
        batch.old_logp - batch.sampler_logp, batch.mask.double(), level, threshold
    )
    advantages = algorithm.advantage(batch)
    agree((loss, gradient), verl_loss("vanilla", batch, now, advantages, "token-mean", weights, **CLIPS))
    assert weights[batch.mask].unique().numel() > 9


def test_dropped_answers_are_those_that_verl_rejects(build, charge, verl_loss, rollout_corr, agree, a_step):
    """verl bounds the reciprocal of the ratio."""
    batch, now = a_step
    algorithm = build(
        "algorithm=sequence_mask",
        "algorithm.credit.sequence_mask.low=0.8",
        "algorithm.credit.sequence_mask.high=1.25",
    )
    loss, gradient, _, credit = charge(algorithm, batch, now)
    kept, _ = rollout_corr.compute_rollout_rejection_mask(
        batch.old_logp - batch.sampler_logp, batch.mask.double(), "seq_mean_k1", "0.8_1.25"
    )
    assert (kept.bool() == credit.mask).all()
    assert 0 < credit.mask.sum() < batch.mask.sum()
    advantages = algorithm.advantage(batch)
    batch = replace(batch, mask=kept.bool())
    agree((loss, gradient), verl_loss("vanilla", batch, now, advantages, "token-mean", **CLIPS))


def test_verl_weighs_by_the_reciprocal_where_bounds_are_not_each_others(build, charge, rollout_corr, a_step):
    batch, now = a_step
    settings = ["algorithm.credit.sequence_mask.low=0.5", "algorithm.credit.sequence_mask.high=1.1"]
    credit = charge(build("algorithm=sequence_mask", *settings), batch, now)[3]
    log_ratio, mask = batch.old_logp - batch.sampler_logp, batch.mask.double()
    turned, _ = rollout_corr.compute_rollout_rejection_mask(log_ratio, mask, "seq_mean_k1", f"{1 / 1.1}_{1 / 0.5}")
    straight, _ = rollout_corr.compute_rollout_rejection_mask(log_ratio, mask, "seq_mean_k1", "0.5_1.1")
    assert (turned.bool() == credit.mask).all()
    assert not (straight.bool() == credit.mask).all()
