import pytest
import torch

from isentropic.algorithm.ratio.arithmetic import ArithmeticRatio


@pytest.mark.golden
def test_the_fixture(build, paper):
    batch, now = paper
    log_ratio = torch.where(batch.mask, now.logp - batch.old_logp, 0)
    ratio = build("algorithm=grpo_s").ratio(log_ratio, batch.mask)
    assert ratio[:, 0].tolist() == pytest.approx([1.067778, 3.853571, 0.981481, 1.065000], abs=2e-6)


@pytest.mark.identity
def test_of_one_token_it_is_that_tokens_ratio(build):
    log_ratio = torch.tensor([[0.3, 0.0], [0.0, -2.0]])
    mask = log_ratio != 0
    token = build("algorithm=grpo").ratio(log_ratio, mask)
    torch.testing.assert_close(ArithmeticRatio()(log_ratio, mask)[:, 0], token[mask])


@pytest.mark.golden
def test_the_gradient_is_shared_out_by_the_ratios():
    log_ratio = torch.tensor([[0.5, -0.5, 0.0]], requires_grad=True)
    ArithmeticRatio()(log_ratio, torch.tensor([[True, True, False]])).sum().backward()
    expected = torch.tensor([[0.5, -0.5, -torch.inf]]).exp() / 2
    torch.testing.assert_close(log_ratio.grad, expected)


@pytest.mark.degenerate
def test_it_is_finite_however_far_the_policy_moved_and_where_no_token_takes_part():
    log_ratio = torch.tensor([[-torch.inf, 1000.0], [0.0, 0.0]], requires_grad=True)
    ratio = ArithmeticRatio()(log_ratio, torch.tensor([[True, True], [False, False]]))
    ratio.sum().backward()
    assert ratio.isfinite().all() and ratio[1] == 0
    assert torch.equal(log_ratio.grad, torch.zeros(2, 2))
