"""Weights and masks for a sampler whose log-probs are not the trainer's, against verl's own."""

import pytest

pytestmark = pytest.mark.parity

CLIPS = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28, "clip_ratio_c": 10.0}


def test_truncated_importance_is_verls_token_correction(build, charge, verl_loss, rollout_corr, agree, a_step):
    batch, now = a_step
    loss, gradient, _, _ = charge(build("algorithm=dapo", "algorithm/credit=[truncated_importance]"), batch, now)
    advantages = build("algorithm=dapo").advantage(batch)
    weights, _ = rollout_corr.compute_rollout_correction_weights(
        batch.old_logp - batch.sampler_logp, batch.mask.double(), "token", 2.0
    )
    agree((loss, gradient), verl_loss("vanilla", batch, now, advantages, "token-mean", weights, **CLIPS))
    assert weights.max() == 2 and weights[batch.mask].min() < 1
