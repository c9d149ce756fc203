from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.credit.clip_cov import ClipCov
from isentropic.batch import Credit, Drive

CANDIDATES = [[0, 0], [0, 2], [0, 4], [1, 3], [2, 1]]


def chosen(credit):
    return ((credit.advantages == 0) & credit.mask).nonzero().tolist()


@pytest.mark.golden
def test_one_of_the_five_candidates_is_left_out_of_the_gain_but_not_of_the_divisor(build, charge, paper):
    loss, grad, metrics, credit = charge(build("algorithm=clip_cov"), *paper)
    (token,) = chosen(credit)
    assert token in CANDIDATES
    assert metrics["credit/clip_cov"] == pytest.approx(1 / 14) and credit.mask.sum() == 14
    without, full, _, _ = charge(build("algorithm=clip_cov", "algorithm/credit=[]"), *paper)
    row, column = token
    assert grad[row, column] == 0 and full[row, column] != 0
    torch.testing.assert_close(
        grad, full.index_put((torch.tensor(row), torch.tensor(column)), torch.tensor(0.0).double())
    )
    assert loss != without


@pytest.mark.golden
def test_with_a_share_that_takes_all_the_candidates_are_those_worked_out_elsewhere(build, charge, paper):
    everything = charge(build("algorithm=clip_cov", "algorithm.credit.clip_cov.share=1"), *paper)[3]
    assert chosen(everything) == CANDIDATES


@pytest.mark.golden
def test_what_is_clipped_anyway_is_no_candidate(build, charge, paper):
    narrow = ["algorithm=clip_cov", "algorithm.credit.clip_cov.share=1", "algorithm.clipping.high=0.28"]
    algorithm = build(*narrow)
    assert (algorithm.credit["clip_cov"].low, algorithm.credit["clip_cov"].high) == (1.0, 0.28)
    assert chosen(charge(algorithm, *paper)[3]) == [t for t in CANDIDATES if t != [0, 2]]  # its ratio is 1.4
    algorithm = build("algorithm=clip_cov", "algorithm.credit.clip_cov.high=0.1")
    assert algorithm.credit["clip_cov"].high == 0.1


def test_a_clipping_without_such_a_range_is_as_if_it_were_open(configure):
    config = configure("algorithm=clip_cov", "~algorithm.clipping.high", "~algorithm.clipping.low")
    assert (config.credit.clip_cov.low, config.credit.clip_cov.high) == (1.0, float("inf"))


@pytest.mark.invariance
def test_the_choice_does_not_depend_on_the_order_of_rows_or_on_padding(paper):
    batch, now = paper
    advantages = torch.where(batch.reward > 0, 0.866024, -0.866024)[:, None] * batch.mask
    rule = ClipCov(share=0.2, lower=1.0, upper=5.0, low=1.0, high=1.0)
    whole = rule(Credit.initial(advantages, batch.mask), now, batch, Drive()).advantages
    assert ((whole == 0) & batch.mask).sum() == 2
    order = torch.tensor([2, 0, 3, 1])
    shuffled = rule(Credit.initial(advantages[order], batch.mask[order]), now[order], batch[order], Drive())
    assert torch.equal(shuffled.advantages, whole[order])


@pytest.mark.degenerate
def test_without_candidates_nothing_changes(paper):
    batch, now = paper
    credit = Credit.initial(now.logp * 0, batch.mask)
    rule = ClipCov(share=0.2, lower=1.0, upper=5.0, low=1.0, high=1.0)
    assert torch.equal(rule(credit, now, batch, Drive()).advantages, credit.advantages)
    nothing = replace(credit, mask=batch.mask & False)
    assert torch.equal(rule(nothing, now, batch, Drive()).advantages, credit.advantages)


@pytest.mark.parametrize("share, lower, named", [(0, 1, "share"), (2, 1, "share"), (0.1, 5, "lower")])
def test_settings_that_make_no_sense_are_refused(share, lower, named):
    with pytest.raises(ValueError, match=rf"credit\.clip_cov\.{named}="):
        ClipCov(share, lower, 5, 0.2, 0.2)
