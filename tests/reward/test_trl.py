import warnings

import pytest

from isentropic.reward.functions import function_at
from isentropic.reward.total import Rewards
from isentropic.reward.trl import Trl

SETTINGS = {"timeout": 30.0, "on_error": "stop", "isolated": False, "workers": 1, "memory": 4.0, "weights": None}


def rewards(*paths, **settings):
    return Rewards({"trl": Trl(functions=list(paths), **(SETTINGS | settings))})


def test_functions_as_trl_takes_them(functions, answer):
    both = rewards(functions("length"), functions("same_as_solution"), functions("later"), weights=[0.5, 2.0, 1.0])
    answers = [answer("four", solution="four"), answer("five", solution="four"), answer("six", solution=None)]
    scores = both(answers)
    assert scores.by_name == {"length": [4.0, 4.0, 3.0], "same_as_solution": [1.0, 0.0, None], "later": [1.0] * 3}
    assert scores.total == [5.0, 3.0, 2.5]
    seen = function_at(functions("same_as_solution")).__globals__["SEEN"][-1]
    assert seen[:2] == (["two and two"] * 3, ["four", "five", "six"]) and seen[2] == [list(a.tokens) for a in answers]
    assert "reference" in seen[3] and "solution" not in seen[3]


def test_in_a_chat_prompts_and_completions_are_messages(functions, answer):
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "two and two"}]
    rewards(functions("same_as_solution"))([answer("four", solution="four", messages=chat)])
    prompts, completions, *_ = function_at(functions("same_as_solution")).__globals__["SEEN"][-1]
    assert prompts == [chat] and completions == [[{"role": "assistant", "content": "four"}]]


def test_a_tensor_of_values_is_taken_and_so_are_decimals(functions, answer):
    assert rewards(functions("tensors"))([answer()] * 3).total == [0.0, 0.5, 1.0]
    assert rewards(functions("decimals"))([answer()] * 2).total == [0.5, 0.5]


def test_the_trainers_state_says_how_many_rollouts_there_were(functions, answer):
    made = rewards(functions("warms_up"))
    made.check(answer().problem)
    assert made([answer(step=7)] * 2).total == [7.0, 7.0]


def test_a_column_that_the_data_lacks_is_said_before_the_run(functions, answer):
    made = rewards(functions("wants"))
    with pytest.raises(ValueError, match=r"reward\.wants: .*:wants asks for difficulty, which the data lacks; its col"):
        made.check(answer(level=3).problem)
    made.check(answer(difficulty=3).problem)


def test_settings_that_do_not_fit_are_refused(functions):
    for settings, message in [
        ({"weights": [1.0, 2.0]}, r"reward\.trl\.weights has 2 numbers and reward\.trl\.functions 1 functions"),
        ({"isolated": True, "timeout": None}, r"reward\.trl\.timeout=null has no limit, which isolated=true needs"),
    ]:
        with pytest.raises(ValueError, match=message):
            rewards(functions("length"), **settings)
    with pytest.raises(ValueError, match="two functions of one name"):
        rewards(functions("length"), functions("length"))


@pytest.mark.slow
def test_isolated_functions_judge_answers_one_by_one(functions, answer):
    """A hang or crash costs that answer alone."""
    made = rewards(functions("same_as_solution"), functions("raises"), isolated=True, timeout=20.0, on_error="zero")
    texts = ("four", "two", "six!")
    with pytest.warns(UserWarning, match=r"reward\.raises \(.*\) raised, ended its process or gave no finite number"):
        scores = made(
            [
                answer(text, solution=s, place=i)
                for i, (text, s) in enumerate(zip(texts, ("four", "", None), strict=True))
            ]
        )
    made.close()
    assert scores.by_name["same_as_solution"] == [1.0, 0.0, None]
    assert scores.by_name["raises"] == [1.0, 0.0, 1.0] and scores.failed == {"same_as_solution": 0, "raises": 1}


EVALUATES = """
import json

def value(completions, **kwargs):
    return [float(eval(completion)) for completion in completions]
"""


@pytest.mark.slow
def test_text_that_an_isolated_function_evaluates_reaches_for_nothing(tmp_path, answer):
    (tmp_path / "evaluates.py").write_text(EVALUATES)
    made = rewards(f"{tmp_path}/evaluates.py:value", isolated=True, timeout=20.0, on_error="zero")
    texts = ["2 + 2", "json.loads.__globals__ and 9", "[x for x in (1, 2)].pop()", "print(9) or 9", "(1).__class__(9)"]
    with pytest.warns(UserWarning, match=r"reward\.value \(.*\) raised, ended its process"):
        scores = made([answer(text, place=i) for i, text in enumerate(texts)])
    made.close()
    assert scores.by_name["value"] == [4.0, 0.0, 2.0, 0.0, 0.0] and scores.failed == {"value": 3}


KEEPS = """
import random
from functools import wraps

TABLE, SEEN, DRAW = {1: 2}, [], random.Random(0)

def quietly(function):
    @wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)
    return inner

def note(text):
    SEEN.append(text)

@quietly
def lists(completions, **kwargs):
    return [note(text) or 1.0 for text in completions]

def draws(completions, **kwargs):
    return [DRAW.random() for _ in completions]

def counts(completions, **kwargs):
    counts.calls = getattr(counts, "calls", 0) + 1
    return [float(counts.calls)] * len(completions)

def closed(total=[0]):
    def closes(completions, **kwargs):
        total[0] += 1
        return [float(total[0])] * len(completions)
    return closes

closes = closed()

def keeps_nothing(completions, **kwargs):
    return [float(TABLE[1]) for _ in completions]
"""


@pytest.mark.parametrize(
    ("name", "kept"),
    [("lists", "SEEN"), ("draws", "DRAW"), ("counts", "counts.calls"), ("closes", "total"), ("keeps_nothing", None)],
)
def test_what_a_function_keeps_between_calls_is_said_to_be_forgotten_once(tmp_path, answer, name, kept):
    (tmp_path / "own.py").write_text(KEEPS)
    made = rewards(f"{tmp_path}/own.py:{name}")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(5):
            made([answer()] * 2)
    wanted = f"reward.{name}: {kept} has changed between two calls, and a checkpoint forgets it; if values hang on it, "
    assert [str(one.message).startswith(wanted) for one in said] == ([True] if kept else [])
