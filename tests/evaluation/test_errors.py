import math

import pytest
import torch

from isentropic.evaluation.errors import given_problems, over_problems

# 30 problems, 32 answers of each, 421 of 960 right, and a standard deviation of .314 between problems
RIGHT = [0, 0, 1, 2, 3, 3, 4, 5, 5, 7, 8, 9, 12, 12, 12, 14, 14, 16, 18, 19, 20, 21, 22, 23, 23, 26, 29, 30, 31, 32]
ASKED = torch.full((30,), 32)


@pytest.mark.golden
def test_the_two_errors_of_an_exam_are_neither_each_other_nor_the_naive_one():
    right = torch.tensor(RIGHT)
    share = right.double() / 32
    naive = math.sqrt(float(share.mean() * (1 - share.mean())) / 960)
    assert float(share.mean()) == pytest.approx(0.4385, abs=1e-4)
    assert over_problems(share) == pytest.approx(0.0573, abs=5e-5)
    assert given_problems(right, ASKED) == pytest.approx(0.0127, abs=5e-5)
    assert naive == pytest.approx(0.0160, abs=5e-5)


def test_the_error_given_the_problems_is_that_of_answers_drawn_again():
    chances, draw = torch.tensor([0.1, 0.5, 0.9, 0.7]), torch.Generator().manual_seed(0)
    drawn = torch.bernoulli(chances.expand(4000, 8, 4), generator=draw).sum(1).long()
    spread = (drawn.double() / 8).mean(-1).std()
    told = torch.tensor([given_problems(one, torch.full((4,), 8)) for one in drawn[:400]])
    assert float((told**2).mean().sqrt()) == pytest.approx(float(spread), rel=0.05)


@pytest.mark.degenerate
def test_what_cannot_be_known_is_none():
    assert over_problems(torch.tensor([0.5])) is None
    assert given_problems(torch.tensor([1, 0]), torch.tensor([1, 1])) is None
    assert given_problems(torch.tensor([2, 0]), torch.tensor([2, 2])) == 0
    assert over_problems(torch.tensor([0.5, 0.5])) == 0
