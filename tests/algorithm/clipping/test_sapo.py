import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isentropic.algorithm.clipping.sapo import Sapo, SapoBounds
from isentropic.batch import Credit


def slope(ratio, sign, tau_pos=1.0, tau_neg=1.05):
    """The gradient of the surrogate at the log-prob, over the advantage."""
    log_ratio = torch.tensor([[ratio]], dtype=torch.float64).log().requires_grad_()
    credit = Credit.initial(torch.full((1, 1), sign, dtype=torch.float64), torch.ones(1, 1, dtype=torch.bool))
    SapoBounds(tau_pos, tau_neg).surrogate(log_ratio.exp(), credit).sum().backward()
    return log_ratio.grad.item() / sign


@pytest.mark.golden
def test_the_papers_loss(build, charge, paper):
    loss, _, metrics, _ = charge(build("algorithm=sapo"), *paper)
    assert loss == pytest.approx(0.060696, abs=2e-6)
    assert [name for name in metrics if name.startswith("clipping/")] == []


@pytest.mark.golden
def test_the_papers_gradient(build, charge, paper):
    batch, now = paper
    _, grad, _, credit = charge(build("algorithm=sapo"), batch, now)
    ratio = (now.logp - batch.old_logp).exp()
    gate = torch.where(credit.advantages > 0, 1.0, 1.05).mul(ratio - 1).sigmoid()
    weight = 4 * gate * (1 - gate) * ratio / batch.mask.sum(1, keepdim=True) / 4
    torch.testing.assert_close(grad, torch.where(batch.mask, -credit.advantages * weight, 0))


@pytest.mark.identity
def test_nearly_flat_gates_do_not_clip(build, charge, paper):
    flat = ["algorithm.clipping.tau_pos=1e-6", "algorithm.clipping.tau_neg=1e-6"]
    plain = [f"algorithm.clipping.{setting}" for setting in ("low=1", "high=100", "ceiling=inf")]
    found, expected = (charge(build(*parts), *paper)[1] for parts in (["algorithm=sapo", *flat], plain))
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)


@given(st.floats(0.05, 20), st.sampled_from([1.0, -1.0]), st.floats(0.1, 10))
def test_a_token_never_learns_faster_than_without_a_gate(ratio, sign, tau):
    assert 0 <= slope(ratio, sign, tau, tau) <= ratio + 1e-12
    assert slope(1.0, sign, tau, tau) == pytest.approx(1)


def test_bad_answers_gate_closes_faster():
    assert slope(2.0, -1.0) < slope(2.0, 1.0)


@pytest.mark.parametrize("tau", [(0, 1), (1, -1), (float("nan"), 1)])
def test_temperatures_that_are_not_above_zero_are_refused(tau):
    with pytest.raises(ValueError, match=r"tau_pos=.* must be above 0"):
        Sapo(*tau)
