import pytest
import torch

from isentropic.algorithm.clipping.reciprocal import Reciprocal
from isentropic.batch import Drive, Vitals

OPEN = "algorithm.control.target=10"


@pytest.mark.golden
@pytest.mark.parametrize("rollouts, high", [(0, 2.5), (1, 2.75), (4, 3.5), (10, 5.0), (30, 5.0)])
def test_the_papers_bounds(build, paper, rollouts, high):
    algorithm = build("algorithm=mai_thinking", OPEN)
    drive = Drive()
    for _ in range(rollouts):
        drive = algorithm.control.update(Vitals(0.1, 0.0))
    bounds = algorithm.clipping(paper[1], paper[0], drive)
    assert (bounds.low, bounds.high, bounds.ceiling) == (pytest.approx(0.4), pytest.approx(high), torch.inf)


@pytest.mark.golden
def test_the_loss_by_hand(build, charge, paper):
    batch, now = paper
    loss, gradient, metrics, credit = charge(build("algorithm=mai_thinking", "algorithm.clipping.low=0.15"), batch, now)
    ratio = (now.logp - batch.old_logp).exp()  # H is 1.007, above the target: 0.85 to 1.176
    flat = torch.zeros_like(batch.mask)
    flat[0, 1] = flat[0, 2] = flat[1, 0] = True  # 1.25 and 1.4 of a good answer, 0.714 of a bad one
    assert torch.equal((gradient == 0) & batch.mask, flat)
    cost = torch.where(flat, torch.where(ratio > 1, 1 / 0.85, 0.85), ratio) * credit.advantages
    assert loss == pytest.approx(-cost[batch.mask].sum().item() / 14)
    assert metrics["control/up"] == 0


@pytest.mark.identity
def test_without_a_drive_it_is_fixed(build, charge, paper):
    fixed = build("algorithm=dapo", "algorithm.clipping.high=0.25", "algorithm.clipping.ceiling=inf")
    idle = build("algorithm=mai_thinking", "algorithm.clipping.low=0.2", "algorithm.control.target=0.01")
    assert charge(idle, *paper)[0] == pytest.approx(charge(fixed, *paper)[0], abs=1e-12)


@pytest.mark.parametrize(
    "wrong, named", [((1.0, 1, 10), "low=1.0 must be below 1"), ((0.6, -1, 10), "room=-1"), ((0.6, 1, 0.5), "ceiling=")]
)
def test_settings_that_make_no_sense_are_refused(wrong, named):
    with pytest.raises(ValueError, match=f"clipping.{named}"):
        Reciprocal(*wrong)
