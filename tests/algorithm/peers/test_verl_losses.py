"""Losses and their gradients at every log-prob against verl's own. Where definitions differ, there are numbers."""

import pytest
import torch

pytestmark = pytest.mark.parity

# verl's aggregation, our override, and what verl is told besides.
CONSTANT = "algorithm/aggregation=constant"
MODES = {
    "token-mean": (["algorithm/aggregation=token_mean"], {}),
    "token-sum": (
        [CONSTANT, "algorithm.aggregation.length=1", "algorithm.aggregation.divide_by_sequences=false"],
        {},
    ),
    "seq-mean-token-mean": (["algorithm/aggregation=sequence_mean"], {}),
    "seq-mean-token-sum": ([CONSTANT, "algorithm.aggregation.length=1"], {}),
    "seq-mean-token-sum-norm": ([CONSTANT, "algorithm.aggregation.length=7"], {"loss_scale_factor": 7}),
}


def clips(low, high):
    return {"clip_ratio_low": low, "clip_ratio_high": high}


def clip_cov(low, high):
    """With lots for all candidates, so that nothing is left to chance."""
    bounds = [f"algorithm.clipping.low={low}", f"algorithm.clipping.high={high}"]
    ours = ["algorithm=clip_cov", "algorithm.credit.clip_cov.share=1", *bounds]
    return ours, "clip_cov", "token-mean", clips(low, high) | {"policy_loss": {"clip_cov_ratio": 1.0}}


# Our override, verl's name of the same loss, its aggregation and its settings.
LOSSES = {
    "gspo": (["algorithm=gspo"], "gspo", "seq-mean-token-mean", clips(3e-4, 4e-4)),
    "gspo, wide": (
        ["algorithm=gspo", "algorithm.clipping.low=0.2", "algorithm.clipping.high=0.28"],
        "gspo",
        "seq-mean-token-mean",
        clips(0.2, 0.28),
    ),
    "gmpo": (["algorithm=gmpo"], "geo_mean", "seq-mean-token-mean", clips(0.4, 0.4)),
    "cispo": (["algorithm=cispo"], "cispo", "token-mean", clips(1.0, 0.28)),
    "cispo, two-sided": (["algorithm=cispo", "algorithm.clipping.low=0.2"], "cispo", "token-mean", clips(0.2, 0.28)),
    "sapo": (["algorithm=sapo"], "sapo", "seq-mean-token-mean", {"tau_pos": 1.0, "tau_neg": 1.05}),
    "clip_cov": clip_cov(1.0, 1.0),
    "clip_cov, clipped": clip_cov(0.2, 0.28),
    "kl_cov": (
        ["algorithm=kl_cov", "algorithm.credit.kl_cov.share=0.2"],
        "kl_cov",
        "token-mean",
        {"policy_loss": {"kl_cov_ratio": 0.2, "ppo_kl_coef": 1.0}},
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_verls(build, charge, verl_loss, agree, an_answered_step, name):
    overrides, theirs, mode, settings = LOSSES[name]
    algorithm = build(*overrides)
    loss, gradient, _, _ = charge(algorithm, *an_answered_step)
    advantages = algorithm.advantage(an_answered_step[0])
    agree((loss, gradient), verl_loss(theirs, *an_answered_step, advantages, mode, **settings))


@pytest.mark.parametrize("mode", MODES)
def test_aggregations_of_the_clipped_loss_are_verls(build, charge, verl_loss, agree, a_step, mode):
    overrides, told = MODES[mode]
    loss, gradient, _, credit = charge(build("algorithm=dapo", *overrides), *a_step)
    agree(
        (loss, gradient),
        verl_loss(
            "vanilla", *a_step, credit.advantages, mode, **clips(0.2, 0.28), clip_ratio_c=10.0, global_batch_info=told
        ),
    )


def test_an_answer_without_tokens_counts_in_verls_gmpo_and_not_here(build, charge, verl_loss, a_step):
    loss, _, _, credit = charge(build("algorithm=gmpo"), *a_step)
    theirs, _ = verl_loss("geo_mean", *a_step, credit.advantages, "", **clips(0.4, 0.4))
    assert theirs == pytest.approx(loss * 17 / 18, abs=1e-6)


def test_clip_cov_draws_as_many_tokens_as_verl(build, charge, verl_loss, an_answered_step):
    batch, now = an_answered_step
    _, gradient, metrics, _ = charge(build("algorithm=clip_cov", "algorithm.credit.clip_cov.share=0.05"), batch, now)
    advantages = build("algorithm=clip_cov").advantage(batch)
    settings = clips(1.0, 1.0) | {"policy_loss": {"clip_cov_ratio": 0.05}}
    _, theirs = verl_loss("clip_cov", batch, now, advantages, "token-mean", **settings)
    assert (gradient == 0).sum() == (theirs == 0).sum()
    assert metrics["credit/clip_cov"] > 0


def test_the_scenes_reach_every_limit(build, charge, scenes):
    reached = [charge(build("algorithm=dapo"), *one)[2] for one in scenes]
    assert all(sum(one[f"clipping/clipped_{side}"] for one in reached) > 0 for side in ("low", "high", "ceiling"))


def test_two_micro_batches_count_alike_in_verl_only_when_told_the_tokens_of_the_step(build, charge, paper, verl_loss):
    """Left to itself verl divides by the micro-batch's own tokens, and its legacy actor then weighs by answers."""
    batch, now = paper
    halves = [0, 1], [2, 3]
    loss, _, _, credit = charge(build("algorithm=dapo"), batch, now, *halves)

    def theirs(**told):
        parts = [(batch[rows], now[rows], credit.advantages[rows]) for rows in map(torch.tensor, halves)]
        return [
            verl_loss("vanilla", *part, "token-mean", **clips(0.2, 0.28), clip_ratio_c=10.0, global_batch_info=told)[0]
            for part in parts
        ]

    assert (loss, sum(theirs(batch_num_tokens=14))) == pytest.approx((0.430950, 0.430950), abs=1e-6)
    legacy = charge(build("algorithm=dapo", "algorithm/aggregation=micro_token_mean"), batch, now, *halves)[0]
    assert (legacy, sum(theirs()) / 2) == pytest.approx((0.303835, 0.303835), abs=1e-6)


def test_the_shares_that_verl_logs_of_clipped_tokens_are_those_of_its_alias(build, charge, core_algos, a_step):
    from isentropic.logger.aliases import renamed

    batch, now = a_step
    _, _, ours, credit = charge(build("algorithm=dapo", "algorithm.clipping.ceiling=1.5"), batch, now)
    config = core_algos.ActorConfig(
        strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=1, clip_ratio_c=1.5, **clips(0.2, 0.28)
    )
    mask = batch.mask.double()
    _, theirs = core_algos.compute_policy_loss_vanilla(
        batch.old_logp, now.logp, credit.advantages, mask, "token-mean", config, None
    )
    named = renamed(ours, "verl", "")
    for name in ("actor/pg_clipfrac", "actor/pg_clipfrac_lower"):
        assert named[name] == pytest.approx(theirs[name], abs=1e-6) and theirs[name] > 0
