"""Losses and their gradients at every log-prob against those of TRL's trainer."""

from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch

pytestmark = pytest.mark.parity


@pytest.fixture
def trl_trainer(trl_grpo):
    """TRL's own trainer with what its loss reads, and nothing else: no model, no data. Keywords are its settings."""

    def made(**settings):
        trainer = object.__new__(trl_grpo.GRPOTrainer)
        arguments = {"delta": None, "use_bias_correction_kl": False, "steps_per_generation": 1}
        vars(trainer).update(
            args=SimpleNamespace(**arguments | settings),
            beta=0.0,
            epsilon_low=0.2,
            epsilon_high=0.2,
            importance_sampling_level="token",
            max_completion_length=9,
            top_entropy_quantile=1.0,
            off_policy_mask_threshold=None,
            use_vllm=False,
            vllm_importance_sampling_correction=True,
            aux_loss_enabled=False,
            _entropy_bonus_enabled="entropy_coef" in settings,
            use_adaptive_entropy=False,
            current_gradient_accumulation_steps=1,
            model=SimpleNamespace(training=True),
            accelerator=Accelerator(),
            _metrics={"train": defaultdict(list)},
        )
        vars(trainer).update(settings)
        return trainer

    return made


class Accelerator:
    """Of one process."""

    num_processes, sync_gradients = 1, True

    def gather(self, values):
        return values

    def reduce(self, values, reduction):
        return values

    def pad_across_processes(self, values, dim, pad_index):
        return values


def step(trainer, batch, advantages, logp, entropy, weights=None):
    """The trainer's loss of one micro-batch; what its model would say is given."""
    mask = batch.mask.double()
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: (logp, entropy, None)
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
    return trainer._compute_loss(None, inputs)


@pytest.fixture
def trl_loss(trl_trainer):
    """The loss of TRL's trainer, and its gradient at each log-prob."""

    def charged(batch, now, advantages, weights=None, **settings):
        logp = now.logp.clone().requires_grad_()
        trainer = trl_trainer(use_vllm=weights is not None, **settings)
        loss = step(trainer, batch, advantages, logp, now.entropy, weights)
        loss.backward()
        return loss.item(), logp.grad

    return charged


EXACT = "algorithm.clipping.ceiling=inf"  # TRL's delta is ours with a ceiling, and off
HIGHER, NARROW = {"epsilon_high": 0.28}, {"epsilon_low": 3e-4, "epsilon_high": 4e-4}
GATES = {"sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05}

# Our override, TRL's name of the same loss, and its settings.
LOSSES = {
    "grpo": (["algorithm=grpo", EXACT], "grpo", {}),
    "grpo, two-sided": (["algorithm=grpo"], "grpo", {"delta": 10.0}),
    "grpo_kl": (["algorithm=grpo_kl"], "grpo", {"delta": 10.0, "beta": 0.04}),
    "dapo": (["algorithm=dapo", EXACT], "dapo", HIGHER),
    "bnpo": (["algorithm=dapo", EXACT], "bnpo", HIGHER),
    "dr_grpo": (["algorithm=dr_grpo", "algorithm.aggregation.length=9", EXACT], "dr_grpo", {}),
    "entropy_bonus": (
        ["algorithm=dapo", EXACT, "algorithm/penalty=[entropy_bonus]", "algorithm.penalty.entropy_bonus.weight=0.1"],
        "dapo",
        HIGHER | {"entropy_coef": 0.1},
    ),
    "gspo": (["algorithm=gspo"], "grpo", NARROW | {"importance_sampling_level": "sequence"}),
    "cispo": (["algorithm=cispo"], "cispo", {"epsilon_high": 1.28}),
    "sapo": (["algorithm=sapo"], "sapo", GATES),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_trls(build, charge, trl_loss, agree, an_answered_step, name):
    overrides, theirs, settings = LOSSES[name]
    batch, now = an_answered_step
    loss, gradient, _, credit = charge(build(*overrides), batch, now)
    agree((loss, gradient), trl_loss(batch, now, credit.advantages, loss_type=theirs, **settings))


def test_truncated_importance_is_what_trl_does_with_vllms_log_probs(build, charge, trl_loss, agree, an_answered_step):
    batch, now = an_answered_step
    exact = ["algorithm=dapo", EXACT]
    loss, gradient, _, _ = charge(build(*exact, "algorithm/credit=[truncated_importance]"), batch, now)
    weights = (batch.old_logp - batch.sampler_logp).exp().clamp(max=2.0)
    agree((loss, gradient), trl_loss(batch, now, build(*exact).advantage(batch), weights, loss_type="dapo", **HIGHER))


def test_an_answer_without_tokens_counts_among_the_answers_in_trl_and_not_here(build, charge, trl_loss, a_step):
    batch, now = a_step
    loss, _, _, credit = charge(build("algorithm=grpo"), batch, now)
    theirs = trl_loss(batch, now, credit.advantages, loss_type="grpo", delta=10.0)
    assert theirs[0] == pytest.approx(loss * 17 / 18, abs=1e-6)


def test_20_entropy_keeps_trls_tokens_and_divides_by_them_where_trl_divides_by_all(
    build, charge, trl_loss, an_answered_step
):
    batch, now = an_answered_step
    loss, gradient, _, credit = charge(build("algorithm=top_entropy", EXACT), batch, now)
    advantages = build("algorithm=dapo").advantage(batch)
    theirs = trl_loss(batch, now, advantages, loss_type="dapo", top_entropy_quantile=0.2, **HIGHER)
    kept = credit.mask.sum() / batch.mask.sum()
    assert 0.2 <= kept < 0.22
    assert theirs[0] == pytest.approx(loss * kept.item(), abs=1e-6)
    assert torch.allclose(theirs[1], gradient * kept, rtol=0, atol=1e-6)


def test_the_adaptive_coefficient_moves_as_trls_whose_gate_reads_the_entropy_of_the_step_before(
    build, trl_trainer, paper
):
    from isentropic.batch import Vitals

    entropies = [0.3, 0.1, 0.15, 0.2, 0.5, 0.6, 0.1, 0.1]
    batch, now = paper
    control = build("algorithm=entropy_bonus_adaptive").control
    control.coefficient = 0.01
    trainer = trl_trainer(
        loss_type="dapo",
        use_adaptive_entropy=True,
        _last_world_entropy=torch.inf,
        _entropy_window_stats=None,
        entropy_coef=0.01,
        **{"entropy_target": 0.2, "entropy_coef_delta": 0.005, "entropy_coef_min": 0.0, "entropy_coef_max": 1.0},
    )
    ours, theirs, paid, charged = [], [], [], []
    for entropy in entropies:
        paid.append(control.update(Vitals(entropy, 0.0)).up)
        ours.append(control.coefficient)
        loss = step(trainer, batch, now.logp * 0, now.logp, torch.full_like(now.logp, entropy))
        charged.append(-loss.item() / entropy)
        theirs.append(trainer.entropy_coef)
    assert ours == pytest.approx(theirs, abs=1e-9)
    assert paid == pytest.approx([0, 0.005, 0.01, 0.015, 0, 0, 0.01, 0.015], abs=1e-9)
    assert charged == pytest.approx([0, 0, 0.01, 0.015, 0.02, 0, 0, 0.015], abs=1e-9)


def test_what_trl_logs_of_an_update_is_what_its_alias_names(build, charge, trl_trainer, an_answered_step):
    from isentropic.algorithm.diagnostics import describe
    from isentropic.logger.aliases import renamed

    batch, now = an_answered_step
    algorithm = build("algorithm=dapo", EXACT)
    _, _, ours, credit = charge(algorithm, batch, now)
    trainer = trl_trainer(loss_type="dapo", **HIGHER)
    step(trainer, batch, credit.advantages, now.logp, batch.old_entropy)  # as the first update of a rollout would read
    theirs = {name: values[0] for name, values in trainer._metrics["train"].items()}
    named = renamed(ours | describe(batch, algorithm.advantage(batch)), "trl", "")
    for name in ("entropy", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean"):
        assert named[name] == pytest.approx(theirs[name], abs=1e-6) and theirs[name] > 0
