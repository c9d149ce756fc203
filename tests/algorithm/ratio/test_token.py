import torch

from isentropic.algorithm.ratio.token import TokenRatio


def test_a_ratio_for_each_token(paper):
    batch, now = paper
    ratio = TokenRatio()(torch.where(batch.mask, now.logp - batch.old_logp, 0), batch.mask)
    expected = torch.tensor([0.92 / 0.9, 1.25, 1.4, 2 / 3, 1], dtype=torch.float64)
    torch.testing.assert_close(ratio[0], expected)
    assert (ratio[~batch.mask] == 1).all()


def test_ratios_are_finite_however_far_the_policy_moved():
    log_ratio = torch.tensor([[-torch.inf, -1000.0, 1000.0, torch.inf]], requires_grad=True)
    ratio = TokenRatio()(log_ratio, torch.ones(1, 4, dtype=torch.bool))
    ratio.sum().backward()
    assert ratio.isfinite().all()
    assert torch.equal(log_ratio.grad, torch.zeros(1, 4))
