"""What holds for every way of clipping."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isentropic.batch import Credit, Drive

NAMES = sorted(path.stem for path in (Path(__file__).parents[3] / "configs/algorithm/clipping").glob("*.yaml"))
DRIVE = Drive(up=0.5, down=0.5)


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def graded(bounds, ratio, credit):
    ratio = ratio.clone().requires_grad_()
    surrogate = bounds.surrogate(ratio, credit)
    total = torch.where(credit.mask, surrogate, 0).sum() + 0 * ratio.sum()  # some do not use its gradient
    return surrogate.detach(), torch.autograd.grad(total, ratio)[0]


@pytest.mark.invariance
def test_one_ratio_for_each_answer_is_that_of_its_tokens(build, paper, name):
    batch, now = paper
    bounds = build(f"algorithm/clipping={name}").clipping(now, batch, DRIVE)
    row = torch.tensor([[0.5], [1.9], [1.1], [20.0]], dtype=torch.float64)
    for sign in 1, -1:
        credit = Credit.initial(sign * torch.tensor([[1.0], [-1], [1], [-1]]).double().expand(4, 5), batch.mask)
        of_row, of_tokens = graded(bounds, row, credit), graded(bounds, row.expand(4, 5), credit)
        torch.testing.assert_close(of_row[0], of_tokens[0])
        torch.testing.assert_close(of_row[1][:, 0], of_tokens[1].sum(1))
        sides = bounds.clipped(row, credit), bounds.clipped(row.expand(4, 5), credit)
        assert sides[0].keys() == sides[1].keys()
        assert all(torch.equal(tokens.expand(4, 5), sides[1][side]) for side, tokens in sides[0].items())


@pytest.mark.degenerate
@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), float("-inf")])
def test_gain_is_finite_at_the_extremes_and_in_the_padding(build, paper, name, garbage):
    batch, now = paper
    now = replace(now, logp=now.logp.masked_fill(~batch.mask, garbage))
    batch = replace(batch, old_logp=batch.old_logp.masked_fill(~batch.mask, garbage))
    bounds = build(f"algorithm/clipping={name}").clipping(now, batch, DRIVE)
    for dtype in torch.float32, torch.float64:
        for power in -20.0, 20.0:
            for sign in 1, -1, 0:
                credit = Credit.initial(torch.full((4, 5), sign, dtype=dtype), batch.mask)
                surrogate, grad = graded(bounds, torch.full((4, 5), power, dtype=dtype).exp(), credit)
                assert surrogate.isfinite().all() and grad.isfinite().all()
                assert (surrogate == 0).all() or sign


@pytest.mark.degenerate
def test_an_impossible_token_makes_no_gradient_that_is_not_finite(build, charge, paper, name):
    batch, now = paper
    impossible = now.logp.masked_fill(torch.arange(20).view(4, 5) == 6, float("-inf"))
    loss, grad, _, _ = charge(build(f"algorithm/clipping={name}"), batch, replace(now, logp=impossible))
    assert torch.tensor(loss).isfinite() and grad.isfinite().all()


@pytest.mark.identity
@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean"])
@pytest.mark.parametrize("ratio", ["token", "geometric"])
def test_with_one_update_the_gradient_is_the_policy_gradient(build, charge, paper, name, ratio, aggregation):
    batch, now = paper
    still = replace(now, logp=batch.old_logp)
    parts = f"algorithm/ratio={ratio}", f"algorithm/aggregation={aggregation}"
    _, grad, metrics, credit = charge(build(f"algorithm/clipping={name}", *parts), batch, still)
    share = {"token_mean": batch.mask.sum(), "sequence_mean": 4 * batch.mask.sum(1, keepdim=True)}[aggregation]
    torch.testing.assert_close(grad, torch.where(batch.mask, -credit.advantages / share, 0))
    assert [value for side, value in metrics.items() if side.startswith("clipping/") and value] == []


@pytest.mark.composition
def test_sides_are_told_as_shares_of_tokens(build, charge, paper, name):
    metrics = charge(build(f"algorithm/clipping={name}"), *paper)[2]
    sides = {side: value for side, value in metrics.items() if side.startswith("clipping/")}
    assert sides.keys() <= {f"clipping/clipped_{side}" for side in ("low", "high", "ceiling")}
    assert all(0 <= value < 1 for value in sides.values())
    assert bool(sides) == (name != "sapo")
