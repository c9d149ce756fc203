import pytest
import torch

from isentropic.algorithm.clipping.aspo import Aspo, AspoBounds
from isentropic.batch import Credit

RATIO = torch.tensor([[0.25, 0.5, 1.0, 1.25, 2.0, 8.0]], dtype=torch.float64)


def graded(sign, **given):
    """The surrogate, and its gradient at the log-prob."""
    log_ratio = RATIO.log().requires_grad_()
    bounds = AspoBounds(**{"low": 0.8, "high": 1.28, "ceiling": 3.0} | given)
    surrogate = bounds.surrogate(log_ratio.exp(), Credit.initial(torch.full_like(RATIO, sign), RATIO > 0))
    surrogate.sum().backward()
    return surrogate.flatten().tolist(), log_ratio.grad.flatten().tolist()


def test_praise_has_the_ratio_turned_around_and_stops_where_ppo_does():
    surrogate, grad = graded(1.0)
    assert surrogate == pytest.approx([3, 2, 1, 0.8, 1 / 1.28, 1 / 1.28])
    assert grad == pytest.approx([3, 2, 1, 0.8, 0, 0])


def test_blame_has_the_ratio_and_learns_on_at_the_ceiling():
    surrogate, grad = graded(-1.0)
    assert surrogate == pytest.approx([-0.8, -0.8, -1, -1.25, -2, -3])
    assert grad == pytest.approx([0, 0, -1, -1.25, -2, -3])


def test_without_a_ceiling_weights_have_no_limit():
    assert graded(1.0, ceiling=float("inf"))[1][0] == pytest.approx(4)
    assert graded(-1.0, ceiling=float("inf"))[1][-1] == pytest.approx(-8)


def test_sides_are_what_stops_and_what_is_at_the_ceiling():
    advantages = torch.tensor([[1.0], [-1], [0]]).double().expand(3, 6)
    ratio = RATIO.expand(3, 6)
    sides = AspoBounds(0.8, 1.28, 3.0).clipped(ratio, Credit.initial(advantages, ratio > 0))
    assert {side: tokens.nonzero().tolist() for side, tokens in sides.items()} == {
        "low": [[1, 0], [1, 1]],
        "high": [[0, 4], [0, 5]],
        "ceiling": [[0, 0], [1, 5]],
    }


@pytest.mark.golden
def test_the_gradient_is_that_of_the_released_code(build, charge, paper):
    """Weights by hand: p_old / p for right answers, p / p_old for wrong ones, 3 at most, 0 where PPO stops."""
    batch, now = paper
    _, grad, metrics, credit = charge(build("algorithm=aspo"), batch, now)
    weight = torch.zeros_like(now.logp)
    weight[0] = torch.tensor([0.90 / 0.92, 0, 0, 0.3 / 0.2, 1])  # 1.25 and 1.4 are above 1.2
    weight[1, :4] = torch.tensor([0, 1.2, 1, 3])  # 0.714 is below 0.8, 12.5 above 3
    weight[2, :3] = torch.tensor([0.0009 / 0.001, 1, 1.2])
    weight[3, :2] = torch.tensor([1.25, 0.88])
    torch.testing.assert_close(grad, -credit.advantages * weight / 14, atol=1e-7, rtol=0)
    sides = [metrics[f"clipping/clipped_{side}"] for side in ("low", "high", "ceiling")]
    assert sides == [pytest.approx(1 / 14), pytest.approx(2 / 14), pytest.approx(1 / 14)]


@pytest.mark.identity
def test_bad_answers_are_treated_as_by_ppo_with_a_ceiling_that_does_not_stop(build, charge, paper):
    batch, now = paper
    wrong = batch.mask & (batch.reward == 0)[:, None]
    free = "algorithm.clipping.ceiling=inf"
    found = charge(build("algorithm=aspo", free), batch, now)[1]
    expected = charge(build("algorithm=dapo", "algorithm.clipping.high=0.2", free), batch, now)[1]
    torch.testing.assert_close(found[wrong], expected[wrong])
    assert not torch.allclose(found[~wrong & batch.mask], expected[~wrong & batch.mask])


@pytest.mark.parametrize("wrong, named", [((1.1, 0.2, 3), "low"), ((0.2, -1, 3), "high"), ((0.2, 0.2, 1), "ceiling")])
def test_bounds_that_do_not_lie_around_one_are_refused(wrong, named):
    with pytest.raises(ValueError, match=f"clipping.{named}="):
        Aspo(*wrong)
