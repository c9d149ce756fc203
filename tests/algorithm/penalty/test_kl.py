from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.penalty.kl import Kl
from isentropic.batch import Credit, Drive, TokenStats


@pytest.fixture
def charged(paper):
    """Costs and the gradient of their sum, for log-probs of the policy and of the reference."""

    def of(rule, logp, ref_logp):
        batch, _ = paper
        credit = Credit.initial(torch.zeros_like(logp), batch.mask)
        logp = logp.clone().requires_grad_()
        cost = rule(credit, TokenStats(logp, logp, logp), replace(batch, ref_logp=ref_logp), Drive())
        cost.sum().backward()
        return cost.detach(), logp.grad

    return of


@pytest.mark.golden
@pytest.mark.parametrize("estimator, expected", [("k1", -0.916291), ("k2", 0.419794), ("k3", 0.583709)])
def test_estimates_worked_out_by_hand(paper, charged, estimator, expected):
    # p 0.2 and p_reference 0.5: d = ln 2.5 = 0.916291
    _, now = paper
    reference = now.logp.clone()
    reference[0, 3] = torch.tensor(0.5).log()
    cost, _ = charged(Kl(1.0, estimator), now.logp, reference)
    assert cost[0, 3].item() == pytest.approx(expected, abs=2e-6)
    assert cost.abs().sum() == cost[0, 3].abs()


@pytest.mark.golden
def test_the_recipe_adds_the_mean_of_k3_to_the_loss_of_grpo(build, charge, paper):
    batch, now = paper
    batch = replace(batch, ref_logp=batch.old_logp)
    grpo = charge(build("algorithm=grpo"), batch, now)[0]
    d = torch.where(batch.mask, batch.old_logp - now.logp, 0)
    rows = (d.exp() - d - 1).sum(-1) / batch.mask.sum(-1)
    assert charge(build("algorithm=grpo_kl"), batch, now)[0] == pytest.approx(
        grpo + 0.04 * rows.mean().item(), abs=1e-9
    )


@pytest.mark.identity
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_at_the_reference_it_costs_nothing_and_only_k1_pushes(paper, charged, estimator):
    batch, now = paper
    cost, gradient = charged(Kl(0.5, estimator), now.logp, now.logp)
    assert (cost == 0).all()
    assert torch.equal(gradient, batch.mask.double() * (0.5 if estimator == "k1" else 0))


@pytest.mark.identity
def test_expected_gradients_are_none_of_kl_from_the_policy_and_of_kl_from_the_reference():
    torch.manual_seed(0)
    logits = torch.randn(1, 6, dtype=torch.float64).requires_grad_()
    reference = torch.randn(1, 6, dtype=torch.float64).log_softmax(-1)

    def gradient(loss):
        return torch.autograd.grad(loss, logits)[0]

    def expected(estimator):
        """Over all tokens, each as often as the policy takes it."""
        logp = logits.log_softmax(-1)
        every = torch.ones_like(logp) > 0
        batch = replace_reference(every, reference)
        cost = Kl(1.0, estimator)(Credit.initial(logp.detach(), every), TokenStats(logp, logp, logp), batch, Drive())
        return gradient((logp.exp().detach() * cost).sum())

    forward = gradient((logits.softmax(-1) * (logits.log_softmax(-1) - reference)).sum())
    backward = gradient((reference.exp() * (reference - logits.log_softmax(-1))).sum())
    assert forward.sub(backward).abs().max() > 1e-2
    torch.testing.assert_close(expected("k1"), torch.zeros_like(logits), atol=1e-12, rtol=0)
    torch.testing.assert_close(expected("k2"), forward)
    torch.testing.assert_close(expected("k3"), backward)


def replace_reference(mask, ref_logp):
    from isentropic.batch import ScoredBatch

    ids, row = mask.long(), torch.zeros(len(mask), dtype=torch.long)
    reward = row.to(ref_logp.dtype)
    return ScoredBatch(ids, mask, row, reward, row > 0, row > 0, ref_logp, ref_logp, ref_logp, ref_logp, ref_logp)


@pytest.mark.degenerate
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, -torch.inf])
def test_padding_and_impossible_tokens_give_finite_costs(paper, charged, estimator, garbage):
    batch, now = paper
    reference = batch.old_logp.masked_fill(~batch.mask, garbage)
    reference[0, 0], reference[1, 0] = -torch.inf, 500.0
    cost, gradient = charged(Kl(0.04, estimator), now.logp.masked_fill(~batch.mask, garbage), reference)
    assert cost.isfinite().all() and gradient.isfinite().all()
    assert (cost[~batch.mask] == 0).all() and (gradient[~batch.mask] == 0).all()


@pytest.mark.parametrize("weight", [0, -0.1, float("nan")])
def test_a_weight_that_changes_nothing_is_refused(weight):
    with pytest.raises(ValueError, match=r"penalty\.kl\.weight=.* must be above 0; for none, leave kl out"):
        Kl(weight, "k3")
