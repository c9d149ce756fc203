from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.credit.sequence_mask import SequenceMask
from isentropic.batch import Credit, Drive


@pytest.fixture
def disagreeing(paper):
    """Mean log-ratios per token of the four answers: 0.002, -0.002, 0.0008 and 0.0008; NaN in the padding."""
    batch, now = paper
    gap = torch.tensor([[0.01, 0, 0, 0, 0], [-0.008, 0, 0, 0, 0], [0.0008] * 5, [0.0008] * 5], dtype=torch.float64)
    return replace(batch, sampler_logp=(batch.old_logp - gap).masked_fill(~batch.mask, torch.nan)), now


@pytest.mark.golden
def test_rows_leave_the_sum_and_the_divisor_by_their_geometric_mean(build, charge, disagreeing):
    _, grad, metrics, credit = charge(build("algorithm=sequence_mask"), *disagreeing)
    assert credit.mask.sum(-1).tolist() == [0, 0, 3, 2]
    assert metrics["credit/sequence_mask"] == pytest.approx(9 / 14)
    assert grad[2, 1].item() == pytest.approx(-0.866024 / 5, abs=2e-6)
    wide = build("algorithm=sequence_mask", "algorithm.credit.sequence_mask.high=1.01")
    assert charge(wide, *disagreeing)[3].mask.sum(-1).tolist() == [5, 0, 3, 2]


@pytest.mark.identity
def test_a_long_answer_does_not_vanish_for_being_long(paper):
    batch, now = paper
    for length in (5, 500):
        width = length // 5
        long = replace(
            batch, **{name: value.repeat(1, width) for name, value in vars(batch).items() if value.ndim == 2}
        )
        long = replace(long, sampler_logp=long.old_logp - 0.0008)
        kept = SequenceMask(0.999, 1.001)(Credit.initial(long.old_logp, long.mask), now, long, Drive()).mask
        assert torch.equal(kept, long.mask)


@pytest.mark.degenerate
def test_all_dropped_is_no_loss_and_no_gradient(build, charge, paper):
    batch, now = paper
    loss, grad, metrics, _ = charge(
        build("algorithm=sequence_mask"), replace(batch, sampler_logp=batch.old_logp - 1), now
    )
    assert loss == 0 and (grad == 0).all() and metrics["credit/sequence_mask"] == 1


@pytest.mark.degenerate
def test_unknown_log_probs_are_refused(paper):
    batch, now = paper
    unknown = replace(batch, sampler_logp=batch.sampler_logp * torch.nan)
    with pytest.raises(ValueError, match=r"credit\.sequence_mask found no sampler log-prob on 14 tokens"):
        SequenceMask(0.9, 1.1)(Credit.initial(now.logp, batch.mask), now, unknown, Drive())


@pytest.mark.parametrize("low, high", [(-1, 5), (1.5, 5), (0.5, 0.9)])
def test_bounds_that_do_not_lie_around_one_are_refused(low, high):
    with pytest.raises(ValueError, match=r"credit\.sequence_mask\.low="):
        SequenceMask(low, high)
