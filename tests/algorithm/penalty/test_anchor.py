import pytest
import torch

from isentropic.algorithm.penalty.anchor import Anchor
from isentropic.batch import Credit, Drive, TokenStats


@pytest.mark.golden
def test_tied_tokens_pay_for_the_distance_in_either_direction(paper):
    batch, now = paper
    tied = torch.zeros_like(batch.mask)
    tied[0, :2], tied[1, 0] = True, True
    credit = Credit.initial(now.logp * 0, batch.mask).add_kl(tied, 0.5).add_kl(tied, 0.5)
    logp = now.logp.clone().requires_grad_()
    cost = Anchor()(credit, TokenStats(logp, logp, logp), batch, Drive())
    expected = torch.zeros_like(cost)
    expected[0, 0], expected[0, 1], expected[1, 0] = 0.021979, 0.223144, 0.336472  # |ln 0.92/0.90|, 1.25, 0.5/0.7
    torch.testing.assert_close(cost, expected, atol=2e-6, rtol=0)
    cost.sum().backward()
    assert logp.grad[0, :3].tolist() == [1, 1, 0] and logp.grad[1, 0] == -1


@pytest.mark.identity
def test_nothing_tied_costs_nothing_and_neither_does_staying(paper):
    batch, now = paper
    untied = Credit.initial(now.logp * 0, batch.mask)
    assert (Anchor()(untied, now, batch, Drive()) == 0).all()
    logp = batch.old_logp.clone().requires_grad_()
    cost = Anchor()(untied.add_kl(batch.mask, 1.0), TokenStats(logp, logp, logp), batch, Drive())
    cost.sum().backward()
    assert (cost == 0).all() and (logp.grad == 0).all()


@pytest.mark.degenerate
@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, -torch.inf])
def test_padding_is_not_read(paper, garbage):
    batch, now = paper
    logp = now.logp.masked_fill(~batch.mask, garbage).requires_grad_()
    credit = Credit.initial(now.logp * 0, batch.mask).add_kl(batch.mask, 1.0)
    Anchor()(credit, TokenStats(logp, logp, logp), batch, Drive()).sum().backward()
    assert logp.grad.isfinite().all() and (logp.grad[~batch.mask] == 0).all()
