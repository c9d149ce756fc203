import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isentropic.algorithm.ratio.geometric import GeometricRatio

S = [1.035854, 1.809218, 0.974673, 1.048809]


@pytest.mark.golden
def test_ratios_of_the_papers_answers(paper):
    batch, now = paper
    ratio = GeometricRatio()(torch.where(batch.mask, now.logp - batch.old_logp, 0), batch.mask)
    torch.testing.assert_close(ratio, torch.tensor(S, dtype=ratio.dtype)[:, None].expand(4, 5), atol=2e-6, rtol=0)


@pytest.mark.golden
@pytest.mark.parametrize("bounds, loss", [((), 0.191165), ((0.2, 0.28), 0.183489)])
def test_the_papers_loss(build, charge, paper, bounds, loss):
    wider = [f"algorithm.clipping.{side}={width}" for side, width in zip(("low", "high"), bounds, strict=False)]
    assert charge(build("algorithm=gspo", *wider), *paper)[0] == pytest.approx(loss, abs=2e-6)


def test_the_recipe_keeps_the_papers_bounds(build):
    clipping = build("algorithm=gspo").clipping
    assert (clipping.low, clipping.high, clipping.ceiling) == (3e-4, 4e-4, float("inf"))


@pytest.mark.identity
def test_the_gradient_is_that_of_the_ratio_of_the_whole_answer(build, charge, paper):
    batch, now = paper
    _, found, _, credit = charge(build("algorithm=gspo", "algorithm.clipping.high=0.28"), batch, now)
    logp = now.logp.clone().requires_grad_()
    log_ratio = torch.where(batch.mask, logp - batch.old_logp, 0)
    ratio, advantage = (log_ratio.sum(-1) / batch.mask.sum(-1)).exp(), credit.advantages[:, 0]
    torch.minimum(ratio * advantage, ratio.clamp(1 - 3e-4, 1.28) * advantage).mean().neg().backward()
    torch.testing.assert_close(found, logp.grad)


@pytest.mark.identity
def test_answers_of_one_token_have_the_tokens_ratio():
    log_ratio = torch.linspace(-2, 2, 6)[:, None].requires_grad_()
    geometric = GeometricRatio()(log_ratio, torch.ones(6, 1, dtype=torch.bool))
    (grad,) = torch.autograd.grad(geometric.sum(), log_ratio)
    torch.testing.assert_close(geometric, log_ratio.exp())
    torch.testing.assert_close(grad, log_ratio.exp())


@given(st.lists(st.floats(-19, 19), min_size=1, max_size=8), st.lists(st.booleans(), min_size=8, max_size=8))
def test_each_token_carries_its_own_gradient(values, kept):
    log_ratio = torch.tensor([values], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([kept[: len(values)]])
    ratio = GeometricRatio()(torch.where(mask, log_ratio, 0), mask)
    mean = sum(v for v, k in zip(values, kept, strict=False) if k) / max(sum(kept[: len(values)]), 1)
    torch.testing.assert_close(ratio.detach(), torch.full_like(ratio, mean).exp())
    (grad,) = torch.autograd.grad(torch.where(mask, ratio, 0).sum(), log_ratio)
    torch.testing.assert_close(grad, torch.where(mask, ratio.detach(), 0))


@pytest.mark.invariance
def test_padding_and_dropped_tokens_do_not_count():
    log_ratio = torch.tensor([[0.2, -0.4, 0.0, 0.6]])
    mask = torch.tensor([[True, True, False, False]])
    assert GeometricRatio()(log_ratio, mask)[0, 0].item() == pytest.approx(torch.tensor(-0.1).exp().item())


@pytest.mark.degenerate
def test_extremes_stay_finite():
    log_ratio = torch.tensor([[float("-inf"), 1e9, 0.5], [0.0, 0.0, 0.0]], requires_grad=True)
    mask = torch.tensor([[True, True, True], [False, False, False]])
    ratio = GeometricRatio()(log_ratio, mask)
    ratio.sum().backward()
    assert ratio.isfinite().all() and log_ratio.grad.isfinite().all()
    assert (ratio[1] == 1).all() and log_ratio.grad[0, :2].tolist() == [0, 0]
