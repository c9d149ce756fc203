import sys
from dataclasses import replace
from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isentropic.task import Problem
from isentropic.task.countdown import Countdown

COUNTDOWN = Countdown(numbers=4, largest=9, limit=99, held_out=0.1, seed=0)
PROBLEM = Problem("3,8,5,2>27:", ((3, 8, 5, 2), 27))


def status(text: str, problem: Problem = PROBLEM) -> str:
    (verdict,) = COUNTDOWN.verify([problem], [text])
    assert verdict.correct == (verdict.status == "right") == (verdict.reward == 1.0)
    return verdict.status


@pytest.mark.parametrize("text", ["3*8=24;5-2=3;24+3=27", "5-2=3;8*3=24;24+3=27", "5-2=3;3*8=24;3+24=27"])
def test_every_way_to_the_target_is_right(text):
    assert status(text) == "right"


@pytest.mark.parametrize(
    "text",
    [
        "3*8=24;3-2=1;24+1=25",  # 3 is used twice
        "3*8=25;5-2=3;24+3=27",  # wrong arithmetic
        "3*8=24;5-2=3;24+2=27",  # 2 is used up, and 26 is not 27
        "3*8=24;5-2=3",  # two numbers are left over
        "3*8=24;24+3=27",  # 5 and 2 are not used
        "3*8=24;5-2=3;24-3=21",  # not the target
        "3*8=24;5-2=3;24+3=27;27+0=27",  # one step too many
        "9*3=27;8-5=3;3-2=1",  # 9 is not given
        "27+0=27",
    ],
)
def test_wrong_answers_are_wrong(text):
    assert status(text) == "wrong"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "27",
        "3*8=24;5-2=3;24+3=27;",
        "3*8=24; 5-2=3;24+3=27",
        "3*8=24;5-2=3;24+3=27\n",
        "3*8=24;2-5=-3;24+3=27",
        "03*8=24;5-2=3;24+3=27",
        "3\u00d78=24;5-2=3;24+3=27",
        "٣*8=24;5-2=3;24+3=27",
        "3*8=²4;5-2=3;24+3=27",
        "3*8=24;5-2=3;24+3=" + "9" * 100_000,
        "\ud800",
    ],
)
def test_what_has_not_the_form_is_unparseable(text):
    assert status(text) == "unparseable"


def test_long_numbers_are_judged_and_not_refused():
    assert status("99999999*99999999=9999999800000001") == "wrong"


@given(st.text("0123456789+-*=;", max_size=40) | st.text(max_size=40))
def test_no_text_raises(text):
    assert status(text) in ("right", "wrong", "unparseable")


def test_equal_numbers_may_be_used_as_often_as_they_are_given():
    fours = Problem("4,4,4,4>32:", ((4, 4, 4, 4), 32))
    assert status("4*4=16;4*4=16;16+16=32", fours) == "right"
    assert status("4*4=16;4+4=8;16+16=32", fours) == "wrong"


def test_verdicts_keep_the_order_of_the_texts():
    verdicts = COUNTDOWN.verify([PROBLEM] * 3, ["", "3*8=24;5-2=3;24+3=27", "27+0=27"])
    assert [verdict.status for verdict in verdicts] == ["unparseable", "right", "wrong"]


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize(
    "task", [COUNTDOWN, replace(COUNTDOWN, numbers=2, limit=9), replace(COUNTDOWN, numbers=6, largest=20, limit=50)]
)
def test_every_problem_is_solved_by_the_answer_it_was_made_from(task, split):
    for index in range(500):
        problem, answer = task.worked(split, index)
        (verdict,) = task.verify([problem], [answer])
        assert verdict.status == "right"
        assert problem == task.problems(split)[index]
        assert problem.prompt == ",".join(map(str, problem.reference[0])) + f">{problem.reference[1]}:"
        assert all(0 <= int(step.partition("=")[2]) <= task.limit for step in answer.split(";"))


@pytest.mark.slow
def test_splits_share_no_multiset_whatever_the_seeds():
    def multisets(split, seed):
        problems = replace(COUNTDOWN, seed=seed).problems(split)
        return {tuple(sorted(problem.reference[0])) for problem in problems[:2000]}

    assert not multisets("train", 0) & multisets("test", 1)
    assert not multisets("train", 1) & multisets("test", 0)
    assert not multisets("train", 1) & multisets("validation", 0)
    assert not multisets("validation", 1) & multisets("test", 0)


def test_about_a_tenth_of_the_multisets_is_held_out():
    multisets = list(combinations_with_replacement(range(1, 10), 4))
    held_out = sum(COUNTDOWN.split_of(numbers) != "train" for numbers in multisets)
    assert 0.07 < held_out / len(multisets) < 0.13


def test_a_seed_and_an_index_name_one_problem():
    again = replace(COUNTDOWN)
    assert again.problems("train")[7] == COUNTDOWN.problems("train")[7]
    assert again.problems("train")[7] != replace(COUNTDOWN, seed=1).problems("train")[7]
    assert len({problem.prompt for problem in COUNTDOWN.problems("train")[:200]}) > 190


def test_problems_are_made_lazily_and_without_end():
    problems = COUNTDOWN.problems("test")
    assert len(problems) == sys.maxsize
    assert problems[-1] == problems[sys.maxsize - 1]
    assert problems[3:9:2] == [problems[3], problems[5], problems[7]]
    with pytest.raises(IndexError):
        problems[sys.maxsize]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"numbers": 1}, "task.numbers=1"),
        ({"largest": 0}, "task.largest=0"),
        ({"limit": 0}, "task.limit=0"),
        ({"held_out": 0.0}, "task.held_out=0.0"),
        ({"held_out": 1.0}, "task.held_out=1.0"),
        ({"numbers": 2, "largest": 1}, "allow no"),
    ],
)
def test_settings_without_problems_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        replace(COUNTDOWN, **setting)
