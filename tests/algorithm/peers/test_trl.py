"""Losses and their gradients at every log-prob against those of TRL's trainer."""

from collections import defaultdict
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.parity

CLIPS = {"epsilon_low": 0.2, "epsilon_high": 0.2}


@pytest.fixture
def trl_loss(trl_grpo):
    """The loss of TRL's trainer, and its gradient at each log-prob; a trainer is here what its loss reads."""

    def charged(loss_type, batch, now, advantages, weights=None, level="token", beta=0.0, length=9, **settings):
        logp = now.logp.clone().requires_grad_()
        mask = batch.mask.double()
        limits = dict(CLIPS, **{k: settings.pop(k) for k in CLIPS if k in settings})
        trainer = SimpleNamespace(
            **limits,
            loss_type=loss_type,
            importance_sampling_level=level,
            beta=beta,
            max_completion_length=length,
            args=SimpleNamespace(
                **{"delta": None, "use_bias_correction_kl": False, "steps_per_generation": 1} | settings
            ),
            top_entropy_quantile=settings.pop("top_entropy_quantile", 1.0),
            aux_loss_enabled=False,
            off_policy_mask_threshold=None,
            use_vllm=weights is not None,
            vllm_importance_sampling_correction=weights is not None,
            _entropy_bonus_enabled=False,
            current_gradient_accumulation_steps=1,
            model=SimpleNamespace(training=True),
            accelerator=SimpleNamespace(num_processes=1, reduce=lambda x, reduction: x, gather=lambda x: x),
            _metrics={"train": defaultdict(list)},
            _get_per_token_logps_and_entropies=lambda *_, **__: (logp, now.entropy, None),
            get_high_entropy_mask=trl_grpo.GRPOTrainer.get_high_entropy_mask,
        )
        inputs = {
            "prompt_ids": batch.tokens[:, :1],
            "prompt_mask": batch.mask[:, :1],
            "completion_ids": batch.tokens,
            "completion_mask": mask,
            "advantages": advantages,
            "old_per_token_logps": batch.old_logp,
            "ref_per_token_logps": batch.ref_logp,
            "importance_sampling_ratio": weights,
            "num_items_in_batch": mask.sum(),
        }
        loss = trl_grpo.GRPOTrainer._compute_loss(trainer, None, inputs)
        loss.backward()
        return loss.item(), logp.grad

    return charged


LOSSES = {
    "grpo": (["algorithm=grpo", "algorithm.clipping.ceiling=inf"], "grpo", {}),
    "grpo, two-sided": (["algorithm=grpo"], "grpo", {"delta": 10.0}),
    "dapo": (["algorithm=dapo", "algorithm.clipping.ceiling=inf"], "dapo", {"epsilon_high": 0.28}),
    "bnpo": (["algorithm=dapo", "algorithm.clipping.ceiling=inf"], "bnpo", {"epsilon_high": 0.28}),
    "dr_grpo": (
        ["algorithm=dr_grpo", "algorithm.aggregation.length=9", "algorithm.clipping.ceiling=inf"],
        "dr_grpo",
        {},
    ),
    "grpo_kl": (["algorithm=grpo_kl"], "grpo", {"delta": 10.0, "beta": 0.04}),
    "gspo": (["algorithm=gspo"], "grpo", {"level": "sequence", "epsilon_low": 3e-4, "epsilon_high": 4e-4}),
    "cispo": (["algorithm=cispo"], "cispo", {"epsilon_high": 1.28}),
    "sapo": (["algorithm=sapo"], "sapo", {"sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05}),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_trls(build, charge, trl_loss, agree, an_answered_step, name):
    overrides, theirs, settings = LOSSES[name]
    batch, now = an_answered_step
    loss, gradient, _, credit = charge(build(*overrides), batch, now)
    agree((loss, gradient), trl_loss(theirs, batch, now, credit.advantages, **settings))


def test_truncated_importance_is_what_trl_does_with_vllms_log_probs(build, charge, trl_loss, agree, an_answered_step):
    batch, now = an_answered_step
    exact = ["algorithm=dapo", "algorithm.clipping.ceiling=inf"]
    loss, gradient, _, _ = charge(build(*exact, "algorithm/credit=[truncated_importance]"), batch, now)
    credit = charge(build(*exact), batch, now)[3]
    weights = (batch.old_logp - batch.sampler_logp).exp().clamp(max=2.0)
    agree((loss, gradient), trl_loss("dapo", batch, now, credit.advantages, weights, epsilon_high=0.28))


def test_an_answer_without_tokens_counts_among_the_answers_in_trl_and_not_here(build, charge, trl_loss, a_step):
    batch, now = a_step
    loss, _, _, credit = charge(build("algorithm=grpo"), batch, now)
    assert int((~batch.mask.any(-1)).sum()) == 1
    assert trl_loss("grpo", batch, now, credit.advantages, delta=10.0)[0] == pytest.approx(loss * 17 / 18, abs=1e-6)
