import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isentropic.task.arithmetic import Arithmetic, value

HELD_OUT = ("validation", "test")

SETTINGS = {"template": "Q: {question}\nA:", "marker": "Answer:", "held_out": 0.1, "seed": 0}


def task(pattern="2..9*2..9+-1..20", **overrides):
    return Arithmetic(pattern=pattern, **(SETTINGS | overrides))


def questions(problems):
    return {problem.prompt for problem in problems}


def test_sums_follow_the_pattern_and_have_the_right_value():
    for problem in task().problems("train")[:200]:
        expression = re.fullmatch(r"Q: ([2-9])\*([2-9])([+-])(\d+)\nA:", problem.prompt)
        assert expression
        a, b, sign, c = expression.groups()
        assert 1 <= int(c) <= 20
        assert problem.reference == int(a) * int(b) + int(f"{sign}{c}")


def test_products_bind_tighter():
    assert value(["", "-", "*", "+"], [2, 3, 4, 5]) == 2 - 3 * 4 + 5
    assert value(["", "*", "*", "-"], [2, 3, 4, 5]) == 2 * 3 * 4 - 5


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 2**31), st.integers(0, 2**40))
def test_splits_share_no_sum_whatever_the_seeds_and_where_one_looks(seed, other, index):
    train = questions(task(seed=seed).problems("train")[index : index + 50])
    validation, test = (questions(task(seed=other).problems(split)[index : index + 50]) for split in HELD_OUT)
    assert not train & validation and not train & test and not validation & test


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["train", *HELD_OUT]), st.integers(0, 2**40))
def test_seed_split_and_index_name_a_problem(seed, split, index):
    assert task(seed=seed).problems(split)[index] == task(seed=seed).problems(split)[index]


def test_seeds_and_indices_give_different_problems():
    first, second = (questions(task("1..999+-1..999", seed=seed).problems("train")[:100]) for seed in (0, 1))
    assert len(first) > 95
    assert len(first & second) < 5


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (" 2*3=6, 6+4=10. Answer: {right}", "right"),
        ("Answer: 0. No, Answer: {right}\n", "right"),
        ("Answer: {right}5", "wrong"),
        ("Answer: **{right}**.", "right"),
        ("Answer: {right}/7", "unparseable"),
        ("Answer: {right}e5", "unparseable"),
        ("Answer: {right}\u00bd", "unparseable"),
        ("Answer: {right} or 1", "unparseable"),
        ("Answer: {right} apples", "unparseable"),
        ("Answer: {right}.5", "unparseable"),
        ("{right}", "unparseable"),
        ("Answer: {right} Answer:", "unparseable"),
    ],
)
def test_the_line_after_the_last_marker_must_be_the_integer(text, status):
    problem = task().problems("test")[0]
    (verdict,) = task().verify([problem], [text.format(right=problem.reference)])
    assert verdict.status == status
    assert verdict.correct == (status == "right")
    assert verdict.reward == (status == "right")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"pattern": "a+b"}, "is not ranges joined by"),
        ({"pattern": "1..9"}, "is not ranges joined by"),
        ({"pattern": "9..1+1..9"}, "empty range 9..1; try 1..9"),
        ({"pattern": "1..1+1..1"}, "allow no (train|validation|test) problem"),
        ({"template": "Q:"}, "must contain {question}"),
        ({"held_out": 0}, "task.held_out=0 is no share"),
    ],
)
def test_settings_that_allow_no_problem_are_refused(overrides, message):
    with pytest.raises(ValueError, match=message):
        task(**overrides)
