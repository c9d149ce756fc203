import pytest
import torch

from isentropic.algorithm.clipping.cispo import Cispo, CispoBounds
from isentropic.batch import Credit

VERL = ["algorithm.clipping.low=0.2"]


@pytest.mark.golden
@pytest.mark.parametrize("overrides, loss", [([], 0.564313), (VERL, 0.573912)])
def test_the_papers_loss(build, charge, paper, overrides, loss):
    assert charge(build("algorithm=cispo", *overrides), *paper)[0] == pytest.approx(loss, abs=2e-6)


@pytest.mark.golden
@pytest.mark.parametrize("overrides, floor", [([], 0), (VERL, 0.8)])
def test_every_token_learns_with_its_clipped_ratio(build, charge, paper, overrides, floor):
    batch, now = paper
    _, grad, metrics, credit = charge(build("algorithm=cispo", *overrides), batch, now)
    weight = (now.logp - batch.old_logp).exp().clamp(floor, 1.28)
    torch.testing.assert_close(grad, torch.where(batch.mask, -credit.advantages * weight / 14, 0))
    assert (grad[batch.mask] != 0).all()
    assert metrics["clipping/clipped_high"] == pytest.approx(2 / 14)  # ratios of 1.4 and 12.5, whatever the sign
    assert metrics.get("clipping/clipped_low") == (pytest.approx(2 / 14) if floor else None)  # 0.667 and 0.714


@pytest.mark.identity
def test_inside_the_limits_the_gradient_is_that_of_dapo_without_clipping(build, charge, paper):
    free = ["algorithm.clipping.high=100"]
    plain = ["algorithm.clipping.low=1", "algorithm.clipping.ceiling=inf"]
    found = charge(build("algorithm=cispo", *free), *paper)[1]
    torch.testing.assert_close(found, charge(build("algorithm=dapo", *plain, *free), *paper)[1])


def test_the_weight_carries_no_gradient():
    ratio, logp = torch.tensor([[1.1, 0.3]], requires_grad=True), torch.tensor([[-1.0, -2.0]], requires_grad=True)
    surrogate = CispoBounds(0.8, 1.28, logp).surrogate(ratio, Credit.initial(torch.tensor([[1.0, -1.0]]), ratio > 0))
    surrogate.sum().backward()
    assert ratio.grad is None
    assert surrogate.tolist() == [[pytest.approx(-1.1), pytest.approx(1.6)]]
    assert logp.grad.tolist() == [[pytest.approx(1.1), pytest.approx(-0.8)]]


@pytest.mark.parametrize("low, high, named", [(1.1, 0.2, "low"), (0.2, -0.1, "high")])
def test_limits_that_do_not_lie_around_one_are_refused(low, high, named):
    with pytest.raises(ValueError, match=f"clipping.{named}="):
        Cispo(low, high)
