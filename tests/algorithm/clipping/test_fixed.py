import pytest
import torch

from isentropic.algorithm.clipping import PpoBounds
from isentropic.algorithm.clipping.fixed import Fixed
from isentropic.batch import Credit

RATIO = torch.tensor([[0.5, 0.9, 1.0, 1.25, 1.5, 20.0]])


def worth(advantages):
    return Credit.initial(advantages, torch.ones_like(advantages, dtype=torch.bool))


def gains(sign, **bounds):
    ratio = RATIO.clone().requires_grad_()
    surrogate = PpoBounds(**{"low": 0.8, "high": 1.28, "ceiling": 10.0} | bounds).surrogate(
        ratio, worth(torch.full_like(RATIO, sign))
    )
    surrogate.sum().backward()
    return surrogate.flatten().tolist(), ratio.grad.flatten().tolist()


def test_praise_stops_above():
    surrogate, grad = gains(1.0)
    assert surrogate == pytest.approx([0.5, 0.9, 1, 1.25, 1.28, 1.28])
    assert grad == [1, 1, 1, 1, 0, 0]


def test_blame_stops_below_and_at_the_ceiling():
    surrogate, grad = gains(-1.0)
    assert surrogate == pytest.approx([-0.8, -0.9, -1, -1.25, -1.5, -10])
    assert grad == [0, -1, -1, -1, -1, 0]


def test_an_infinite_ceiling_is_none():
    assert gains(-1.0, ceiling=float("inf"))[0][-1] == -20


def test_bounds_may_differ_by_token():
    high = torch.tensor([[1.28, 1.28, 1.28, 1.2, 2.0, 30.0]])
    assert gains(1.0, high=high)[0] == pytest.approx([0.5, 0.9, 1, 1.2, 1.5, 20])
    low = torch.tensor([[0.4, 0.95, 0.8, 0.8, 0.8, 0.8]])
    assert gains(-1.0, low=low)[0] == pytest.approx([-0.5, -0.95, -1, -1.25, -1.5, -10])


def test_gain_is_the_papers_formula():
    draw = torch.Generator().manual_seed(0)
    ratio, a = torch.rand(9, 9, generator=draw) * 12, torch.randn(9, 9, generator=draw)
    written = torch.minimum(ratio * a, ratio.clamp(0.8, 1.28) * a)
    written = torch.where(a < 0, torch.maximum(written, 10 * a), written)
    torch.testing.assert_close(PpoBounds(0.8, 1.28, 10.0).surrogate(ratio, worth(a)), written)


def test_one_ratio_for_each_row_is_spread_over_its_tokens():
    assert PpoBounds(0.8, 1.28, 10.0).surrogate(torch.tensor([[1.5], [0.5]]), worth(torch.ones(2, 2))).tolist() == [
        [pytest.approx(1.28)] * 2,
        [0.5] * 2,
    ]


def test_clipped_tokens_are_those_without_gradient():
    advantages = torch.tensor([[1.0], [-1.0], [0.0]]).expand(3, 6)
    sides = PpoBounds(0.8, 1.28, 10.0).clipped(RATIO.expand(3, 6), worth(advantages))
    assert {side: tokens.nonzero().tolist() for side, tokens in sides.items()} == {
        "low": [[1, 0]],
        "high": [[0, 4], [0, 5]],
        "ceiling": [[1, 5]],
    }


@pytest.mark.parametrize(
    "low, high, ceiling, named", [(1.1, 0.2, 10, "low"), (0.2, -0.1, 10, "high"), (0.2, 0.2, 1, "ceil")]
)
def test_bounds_that_do_not_lie_around_one_are_refused(low, high, ceiling, named):
    with pytest.raises(ValueError, match=f"clipping.{named}"):
        Fixed(low, high, ceiling)
