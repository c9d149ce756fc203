from dataclasses import replace

import pytest
import torch

from isentropic.algorithm.advantage.max_rl import MaxRl


def rewarded(paper, *reward):
    return replace(paper[0], reward=torch.tensor(reward, dtype=torch.float64))


@pytest.mark.golden
@pytest.mark.parametrize(
    "reward, expected",
    [
        ((1, 0, 0, 0), (3, -1, -1, -1)),
        ((1, 1, 0, 0), (1, 1, -1, -1)),
        ((1, 1, 1, 0), (1 / 3, 1 / 3, 1 / 3, -1)),
        ((0, 0, 0, 0), (0, 0, 0, 0)),
        ((1, 1, 1, 1), (0, 0, 0, 0)),
        ((1, -1, -1, -1), (0, 0, 0, 0)),  # a mean that is not above zero
        ((1, -1, 1, -1), (0, 0, 0, 0)),
        ((0.1, 0.2, -0.3, 0), (0, 0, 0, 0)),  # a mean that only rounding leaves
        ((0.5, 0.25, 0, 0.25), (1, 0, -1, 0)),
    ],
)
def test_worked_out_by_hand(build, paper, reward, expected):
    batch = rewarded(paper, *reward)
    found = build("algorithm=max_rl").advantage(batch)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64)[:, None] * batch.mask)


@pytest.mark.identity
def test_it_is_the_mean_of_the_group_in_units_of_itself(build, paper):
    batch = rewarded(paper, 1, 0, 1, 1)
    dr_grpo = build("algorithm=dr_grpo").advantage(batch)
    torch.testing.assert_close(MaxRl()(batch), dr_grpo / 0.75)


@pytest.mark.degenerate
@pytest.mark.parametrize("reward", [0.1, 0.7, 0.95, -0.3])
def test_answers_of_equal_worth_have_exactly_no_advantage(paper, reward):
    assert not MaxRl()(replace(paper[0], reward=torch.full((4,), reward))).any()
