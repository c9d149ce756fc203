import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isentropic.task import Problem
from isentropic.task.arithmetic import Arithmetic
from isentropic.task.countdown import Countdown
from isentropic.task.endless import Endless, check_held_out, split_of

SQUARES = Endless(lambda i: Problem(str(i), i * i))


def test_problems_are_made_at_any_index_and_slice():
    assert len(SQUARES) == sys.maxsize
    assert SQUARES[7].reference == 49
    assert SQUARES[-1].prompt == str(sys.maxsize - 1)
    assert [problem.reference for problem in SQUARES[3:6]] == [9, 16, 25]
    with pytest.raises(IndexError):
        SQUARES[sys.maxsize]


@settings(deadline=None)
@given(st.text())
def test_a_question_belongs_to_one_split_and_a_larger_share_only_moves_questions_to_held_out_ones(question):
    small, large = split_of(question, 0.1), split_of(question, 0.5)
    assert small == split_of(question, 0.1)
    assert large == "test" if small != "train" else large in ("train", "validation", "test")


def test_the_held_out_share_is_what_it_says():
    split = Counter(split_of(f"question {i}", 0.1) for i in range(10_000))
    assert 450 < split["test"] < 550
    assert 450 < split["validation"] < 550


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5])
def test_a_share_that_leaves_one_split_empty_is_refused(share):
    with pytest.raises(ValueError, match=f"task.held_out={share} is no share"):
        check_held_out(share)


@pytest.mark.parametrize("split, alike", [("train", False), ("validation", True), ("test", True)])
def test_runs_of_every_seed_are_judged_on_the_same_problems_and_learn_from_others(split, alike):
    made = (
        Countdown(numbers=4, largest=9, limit=99, held_out=0.1, seed=0),
        Arithmetic(pattern="1..99+1..99", template="{question}", marker="", held_out=0.1, seed=0),
    )
    for one in made:
        first, second = ([p.prompt for p in replace(one, seed=seed).problems(split)[:10]] for seed in (0, 1))
        assert (first == second) is alike
        drawn = [p.prompt for p in replace(one, test_seed=1).problems(split)[:10]]
        assert (first == drawn) is not alike
