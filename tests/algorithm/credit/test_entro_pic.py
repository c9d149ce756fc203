from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.credit.entro_pic import EntroPic
from isentropic.batch import Credit, Drive

LIKELY = "algorithm.credit.entro_pic.threshold=0.9"  # (0, 0) of 0.92 and (2, 1) of 0.95


@pytest.mark.golden
@pytest.mark.parametrize("target, a", [(0.3, 0.707143), (1.2, -0.192857)])
def test_the_mean_over_probable_tokens_is_added_to_the_loss(build, charge, paper, target, a):
    overrides = ["algorithm=entro_pic", "algorithm.clipping.ceiling=inf", f"algorithm.control.target={target}", LIKELY]
    loss, grad, metrics, _ = charge(build(*overrides), *paper)
    plain, full, _, _ = charge(build(*overrides[:-1], "algorithm/credit=[]"), *paper)
    assert plain == pytest.approx(0.593639, abs=2e-6)
    assert loss == pytest.approx(plain - a * 0.866024 * (1.022222 + 1) / 2, abs=2e-6)
    assert metrics["credit/entro_pic"] == pytest.approx(2 / 14)
    difference = grad - full
    assert difference.nonzero().tolist() == [[0, 0], [2, 1]]
    assert difference[2, 1].item() == pytest.approx(-a * 0.866024 / 2, abs=2e-6)


def test_where_entropy_should_fall_probable_tokens_are_praised_more_and_blamed_less(paper):
    batch, now = paper
    credit = Credit.initial(torch.where(batch.reward > 0, 1.0, -1.0).double()[:, None] * batch.mask, batch.mask)
    rule = EntroPic(threshold=0.45)
    high = batch.mask & (now.logp > -0.798508)  # ln 0.45: 7 of 14
    for drive, move in ((Drive(down=0.2), 0.4), (Drive(up=0.2), -0.4), (Drive(0.4, 0.6), 0.4)):
        found = rule(credit, now, batch, drive).advantages - credit.advantages
        torch.testing.assert_close(found, torch.where(high, move, 0.0).double())


@pytest.mark.identity
def test_without_a_drive_or_probable_tokens_nothing_changes(paper):
    batch, now = paper
    credit = Credit.initial(torch.where(batch.reward > 0, 1.0, -1.0).double()[:, None] * batch.mask, batch.mask)
    assert torch.equal(EntroPic(0.9)(credit, now, batch, Drive()).advantages, credit.advantages)
    assert torch.equal(EntroPic(0.99)(credit, now, batch, Drive(up=1)).advantages, credit.advantages)


@pytest.mark.degenerate
@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, -torch.inf])
def test_padding_is_not_read(paper, garbage):
    batch, now = paper
    dirty = replace(now, logp=now.logp.masked_fill(~batch.mask, garbage))
    credit = Credit.initial(batch.mask.double(), batch.mask)
    clean = EntroPic(0.45)(credit, now, batch, Drive(up=1)).advantages
    assert torch.equal(EntroPic(0.45)(credit, dirty, batch, Drive(up=1)).advantages, clean)


@pytest.mark.parametrize("threshold", [-0.1, 1.0, 95])
def test_a_threshold_that_is_no_probability_is_refused(threshold):
    with pytest.raises(ValueError, match=r"credit\.entro_pic\.threshold="):
        EntroPic(threshold)
