"""The whole way from hidden states to a loss against liger's fused one: values, and gradients of states and head."""

from dataclasses import replace

import pytest
import torch

pytestmark = pytest.mark.parity

V, D, T = 23, 8, 9

EXACT = "algorithm.clipping.ceiling=inf"  # liger's delta is ours with a ceiling, and off
LOSSES = {
    "grpo": (["algorithm=grpo", EXACT], {"loss_type": "grpo"}),
    "grpo, two-sided": (["algorithm=grpo"], {"loss_type": "grpo", "delta": 10.0}),
    "dapo": (["algorithm=dapo", EXACT], {"loss_type": "dapo", "epsilon_high": 0.28}),
    "bnpo": (["algorithm=dapo", EXACT], {"loss_type": "bnpo", "epsilon_high": 0.28}),
    "dr_grpo": (
        ["algorithm=dr_grpo", "algorithm.aggregation.length=9", EXACT],
        {"loss_type": "dr_grpo", "max_completion_length": 9},
    ),
    "grpo_kl": (["algorithm=grpo_kl"], {"loss_type": "grpo", "delta": 10.0, "beta": 0.04}),
    "gspo": (
        ["algorithm=gspo"],
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon_low": 3e-4, "epsilon_high": 4e-4},
    ),
    "cispo": (["algorithm=cispo"], {"loss_type": "cispo", "epsilon_high": 1.28}),
    "sapo": (["algorithm=sapo"], {"loss_type": "sapo"}),
}


def answers(step, seed):
    """The step's answers as liger needs them: float32, each with tokens, of which the last T of T + 1 are chosen."""
    batch, _ = step
    draw = torch.Generator().manual_seed(seed)
    rows = batch.mask.any(-1)
    batch = batch[rows]
    size = len(batch.reward)
    shifted = {
        name: torch.nn.functional.pad(getattr(batch, name).float(), (1, 0))
        for name in ("sampler_logp", "old_logp", "old_entropy", "old_sensitivity", "ref_logp")
    }
    batch = replace(
        batch,
        tokens=torch.randint(V, (size, T + 1), generator=draw),
        mask=torch.nn.functional.pad(batch.mask, (1, 0)),
        turn=torch.nn.functional.pad(batch.turn, (1, 0)),
        staleness=torch.nn.functional.pad(batch.staleness, (1, 0)),
        reward=batch.reward.float(),
        **shifted,
    )
    hidden = torch.randn(size, T, D, generator=draw)
    head = torch.nn.Linear(D, V, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.randn(V, D, generator=draw))
    return batch, hidden, head


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("seed", range(2))
def test_losses_and_gradients_are_ligers(build, liger_grpo, scenes, name, seed):
    from isentropic.batch import Drive, TokenStats
    from isentropic.policy.model.logprobs import token_stats
    from isentropic.reductions import totals

    overrides, settings = LOSSES[name]
    algorithm = build(*overrides)
    batch, hidden, head = answers(scenes[seed], seed)
    ours = hidden.clone().requires_grad_()
    now = TokenStats(*token_stats(ours, head, batch.tokens, batch.mask, 0.9, 64, "value"))
    noise = torch.randn(now.logp.shape, generator=torch.Generator().manual_seed(seed))
    batch = replace(batch, old_logp=now.logp.detach() + noise, ref_logp=now.logp.detach() + noise / 2)
    still = TokenStats(now.logp.detach(), now.entropy, now.sensitivity)
    credit, _ = algorithm.assign(algorithm.advantage(batch), still, batch, Drive())
    loss, _ = algorithm.loss(now, batch, credit, Drive(), totals(credit.mask))
    loss.backward()
    gradient = head.weight.grad
    theirs, weight = hidden.clone().requires_grad_(), head.weight.detach().clone().requires_grad_()
    fused = liger_grpo.LigerFusedLinearGRPOLoss(
        compiled=False, use_ref_model=True, temperature=0.9, **{"beta": 0.0} | settings
    )
    value, _ = fused(
        theirs,
        weight,
        batch.tokens[:, 1:],
        batch.mask[:, 1:].float(),
        credit.advantages.sum(-1) / credit.mask.sum(-1),
        ref_per_token_logps=batch.ref_logp[:, 1:],
        old_per_token_logps=batch.old_logp[:, 1:],
    )
    value.backward()
    assert loss.item() == pytest.approx(value.item(), abs=1e-6)
    assert torch.allclose(ours.grad, theirs.grad, rtol=0, atol=1e-6)
    assert torch.allclose(gradient, weight.grad, rtol=0, atol=1e-6)
    assert gradient.abs().max() > 1e-3
