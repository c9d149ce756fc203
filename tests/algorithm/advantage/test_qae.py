from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.advantage.qae import Qae

FIVE = (1, 1, 1, 1, 1, 0, 0, 0)
HALF = (1, 0, 1, 0)


def answered(paper, *reward):
    """One group of answers of two tokens with these rewards."""
    batch = paper[0][torch.zeros(len(reward), dtype=torch.long)]
    return replace(
        batch, reward=torch.tensor(reward, dtype=torch.float64), mask=torch.arange(5).expand(len(reward), 5) < 2
    )


@pytest.mark.golden
@pytest.mark.parametrize(
    "reward, interpolate, right, wrong",
    [
        (FIVE, False, 0.0, -1.932179),  # the baseline is 1
        (FIVE, True, 0.386436, -1.545743),  # and 0.8 by the authors' code
        (HALF, False, 1.732048, 0.0),  # 0
        (HALF, True, 1.385638, -0.346410),  # 0.2
    ],
)
def test_worked_out_by_hand_by_either_reading(paper, reward, interpolate, right, wrong):
    batch = answered(paper, *reward)
    found = Qae(0.4, interpolate)(batch)
    expected = torch.where(batch.reward > 0, right, wrong).double()[:, None] * batch.mask
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=0)


@pytest.mark.golden
def test_the_recipe_takes_the_papers_quantile(build, charge, paper):
    algorithm = build("algorithm=qae")
    assert algorithm.advantage == Qae(0.4, False)
    batch, _ = paper
    found = algorithm.advantage(batch)  # right, wrong, right, wrong
    assert found[:, 0].tolist() == pytest.approx([1.732048, 0, 1.732048, 0], abs=2e-6)
    assert (found[~batch.mask] == 0).all()


@pytest.mark.golden
@pytest.mark.parametrize("wrong, baseline", [(0, 1), (1, 1), (2, 1), (3, 0), (4, 0)])
def test_the_quantile_is_continuous_from_the_right(paper, wrong, baseline):
    reward = [0.0] * wrong + [1.0] * (5 - wrong)
    found = Qae(0.4, False)(answered(paper, *reward))[:, 0]  # two of five wrong is exactly 0.4
    assert (found == 0).tolist() == [r == baseline or wrong == 0 for r in reward]


@pytest.mark.identity
def test_either_quantile_is_one_that_numpy_knows(paper):
    import numpy as np

    draw = torch.Generator().manual_seed(0)
    for size in (2, 3, 7, 8):
        reward = torch.rand(size, generator=draw, dtype=torch.float64)
        for quantile in (0.0, 0.3, 0.5, 0.9, 1.0):
            linear = np.quantile(reward, quantile)
            right = np.sort(reward)[min(int(quantile * size + 1e-9), size - 1)]
            for interpolate, baseline in ((True, linear), (False, right)):
                found = Qae(quantile, interpolate)(answered(paper, *reward.tolist()))[:, 0]
                torch.testing.assert_close(found, (reward - baseline) / (reward.std() + 1e-6))


@pytest.mark.degenerate
@pytest.mark.parametrize("reward", [0.1, 0.7, 0.95, -0.3, 1.0])
@pytest.mark.parametrize("interpolate", [False, True])
def test_answers_of_equal_worth_have_exactly_no_advantage(paper, reward, interpolate):
    batch, _ = paper
    assert not Qae(0.4, interpolate)(replace(batch, reward=torch.full((4,), reward))).any()
    assert not Qae(0.4, interpolate)(batch[:1]).any()


def test_groups_of_other_sizes_do_not_see_each_other(paper):
    batch = replace(answered(paper, 1, 0, 1, 0, 1, 1, 0), group=torch.tensor([3, 3, 1, 3, 1, 1, 1]))
    apart = [Qae(0.4, False)(batch[batch.group == g]) for g in (3, 1)]
    together = Qae(0.4, False)(batch)
    assert torch.equal(together[batch.group == 3], apart[0]) and torch.equal(together[batch.group == 1], apart[1])


@pytest.mark.parametrize("quantile", [-0.1, 1.1, float("nan")])
def test_a_quantile_that_is_no_share_is_refused(quantile):
    with pytest.raises(ValueError, match=rf"advantage\.quantile={quantile} is a share of a group"):
        Qae(quantile, False)
