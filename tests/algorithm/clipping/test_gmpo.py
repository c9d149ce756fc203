from math import exp

import pytest
import torch

from isentropic.algorithm.clipping import PpoBounds
from isentropic.algorithm.clipping.gmpo import Gmpo, GmpoBounds
from isentropic.batch import Credit


@pytest.mark.golden
def test_the_papers_loss(build, charge, paper):
    assert charge(build("algorithm=gmpo"), *paper)[0] == pytest.approx(0.183489, abs=2e-6)


@pytest.mark.golden
def test_limits_act_on_the_log_ratios_of_tokens(build, charge, paper):
    batch, now = paper
    narrow = ["algorithm.clipping.fall=0.3", "algorithm.clipping.rise=0.2"]
    loss, grad, metrics, credit = charge(build("algorithm=gmpo", *narrow), batch, now)
    moved = torch.where(batch.mask, now.logp - batch.old_logp, 0)
    moved[0, 1] = moved[0, 2] = 0.2  # log 1.25 and log 1.4 of a right answer
    moved[1, 0] = -0.3  # log 0.714 of a wrong one
    mean = (moved.sum(1) / batch.mask.sum(1)).exp()
    assert loss == pytest.approx(-(credit.advantages[:, 0] * mean).mean().item())
    stopped = torch.zeros_like(batch.mask)
    stopped[0, 1] = stopped[0, 2] = stopped[1, 0] = True
    weight = mean[:, None] / batch.mask.sum(1, keepdim=True) / 4
    torch.testing.assert_close(grad, torch.where(batch.mask & ~stopped, -credit.advantages * weight, 0))
    sides = [metrics[f"clipping/clipped_{side}"] for side in ("low", "high")]
    assert sides == [pytest.approx(1 / 14), pytest.approx(2 / 14)]


@pytest.mark.identity
def test_without_limits_it_is_the_ratio_of_gspo(build, charge, paper):
    free = [f"algorithm.clipping.{setting}" for setting in ("low=1", "high=100")]
    wide = ["algorithm.clipping.fall=inf", "algorithm.clipping.rise=inf"]
    found, expected = charge(build("algorithm=gmpo", *wide), *paper), charge(build("algorithm=gspo", *free), *paper)
    assert found[0] == pytest.approx(expected[0], abs=1e-12)
    torch.testing.assert_close(found[1], expected[1])


@pytest.mark.identity
def test_answers_of_one_token_are_clipped_as_by_ppo():
    moved = torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None]
    for sign in 1, -1:
        credit = Credit.initial(torch.full_like(moved, sign), torch.ones_like(moved, dtype=torch.bool))
        found = []
        for bounds in GmpoBounds(0.4, 0.3), PpoBounds(exp(-0.4), exp(0.3), float("inf")):
            log_ratio = moved.clone().requires_grad_()
            surrogate = bounds.surrogate(log_ratio.exp(), credit)
            surrogate.sum().backward()
            found.append((surrogate.detach(), log_ratio.grad))
        torch.testing.assert_close(*found)


@pytest.mark.invariance
def test_padding_and_dropped_tokens_do_not_count():
    ratio = torch.tensor([[1.1, 0.9, 1.0, 7.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, False, False]])
    surrogate = GmpoBounds(0.4, 0.4).surrogate(ratio, Credit.initial(torch.ones(1, 4, dtype=torch.float64), mask))
    assert surrogate[0, 0].item() == pytest.approx((1.1 * 0.9) ** 0.5)


@pytest.mark.parametrize("limits", [(-0.1, 0.4), (0.4, -0.1), (float("nan"), 0.4)])
def test_negative_limits_are_refused(limits):
    with pytest.raises(ValueError, match=r"clipping.fall=.* may not be negative"):
        Gmpo(*limits)
