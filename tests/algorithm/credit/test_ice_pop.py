from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.credit.ice_pop import IcePop
from isentropic.batch import Credit, Drive


def disagreeing(batch, ratios):
    """The fixture with p_old / p_sampler of the first row as given, and 1 elsewhere."""
    sampler = batch.old_logp.clone()
    sampler[0] -= torch.tensor(ratios, dtype=torch.float64).log()
    return replace(batch, sampler_logp=sampler.masked_fill(~batch.mask, torch.nan))


@pytest.mark.golden
def test_the_ratio_is_the_weight_between_its_bounds_and_nothing_outside(build, charge, paper):
    batch, now = paper
    batch = disagreeing(batch, [0.4, 0.6, 2.0, 4.9, 5.1])
    credit = charge(build("algorithm=ice_pop"), batch, now)[3]
    assert (credit.advantages[0] / 0.866024).tolist() == pytest.approx([0, 0.6, 2, 4.9, 0], abs=2e-6)
    assert torch.equal(credit.mask, batch.mask)


@pytest.mark.identity
def test_where_sampler_and_trainer_agree_it_is_dapo(build, charge, paper):
    loss, grad, _, _ = charge(build("algorithm=ice_pop"), *paper)
    plain, full, _, _ = charge(build("algorithm=dapo"), *paper)
    assert loss == plain and torch.equal(grad, full)


@pytest.mark.degenerate
def test_impossible_tokens_get_no_weight_and_unknown_ones_are_refused(paper):
    batch, now = paper
    credit = Credit.initial(batch.mask.double(), batch.mask)
    for logp, sampler in ((-torch.inf, -1.0), (-1.0, -torch.inf)):
        odd = replace(batch, old_logp=batch.old_logp.clone(), sampler_logp=batch.sampler_logp.clone())
        odd.old_logp[0, 0], odd.sampler_logp[0, 0] = logp, sampler
        assert IcePop(0.5, 5.0)(credit, now, odd, Drive()).advantages[0].tolist() == [0, 1, 1, 1, 1]
    unknown = replace(batch, sampler_logp=batch.sampler_logp * torch.nan)
    with pytest.raises(ValueError, match=r"credit\.ice_pop found no sampler log-prob on 14 tokens"):
        IcePop(0.5, 5.0)(credit, now, unknown, Drive())


@pytest.mark.parametrize("low, high", [(-1, 5), (1.5, 5), (0.5, 0.9)])
def test_bounds_that_do_not_lie_around_one_are_refused(low, high):
    with pytest.raises(ValueError, match=r"credit\.ice_pop\.low=.* must lie around 1"):
        IcePop(low, high)
