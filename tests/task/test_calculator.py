from random import Random

import pytest

from isentropic.task import Problem, Verdict
from isentropic.task.calculator import Calculator, asking

PROBLEM = Problem("3,8,5,2>24:", ((3, 8, 5, 2), 24))


@pytest.fixture
def calculator():
    return Calculator(numbers=4, largest=9, limit=99, held_out=0.1, seed=0)


def said(calculator, *turns):
    episode = calculator.begin(PROBLEM, 0)
    replies = [episode.step(turn) for turn in turns]
    return [reply.verdict.status if reply.verdict else reply.text for reply in replies]


@pytest.mark.golden
def test_results_are_written_until_the_last_decides(calculator):
    assert said(calculator, "3*8=", "5-2=", "24+3=") == ["24;", "3;", "wrong"]
    assert said(calculator, "8-2=", "6*5=", "30-3=") == ["6;", "30;", "wrong"]
    assert said(calculator, "5-2=", "3*8=", "24*3=") == ["3;", "24;", "wrong"]
    assert said(calculator, "5-3=", "2-2=", "0+8=") == ["2;", "0;", "wrong"]
    assert said(calculator, "8-5=", "3*3=", "9*2=") == ["3;", "9;", "wrong"]
    assert said(calculator, "8-5=", "3+3=") == ["3;", "6;"]


@pytest.mark.golden
def test_numbers_that_are_not_left_are_wrong_at_once(calculator):
    assert said(calculator, "9*9=") == ["wrong"]
    assert said(calculator, "3*8=", "3*8=") == ["24;", "wrong"]
    assert said(calculator, "3-8=") == ["wrong"]  # no step could use -5


@pytest.mark.golden
def test_what_is_no_step_is_not_read(calculator):
    for text in ("3*8", "3*8=24;", "", "=", "3*8==", "x", "3*08=", "1" * 40 + "*2="):
        assert said(calculator, text) == ["unparseable"], text


def test_the_target_as_the_last_result_is_right(calculator):
    problem = Problem("3,8,5,2>27:", ((3, 8, 5, 2), 27))
    episode = calculator.begin(problem, 0)
    assert [episode.step(turn).text for turn in ("3*8=", "5-2=")] == ["24;", "3;"]
    last = episode.step("24+3=")
    assert last.verdict == Verdict(1.0, True, "right") and last.calls == 1
    whole = ["3*8=24;5-2=3;24+3=", "3*8=24;5-2=3;24+3=27", "3*8=24;5-2=3;24+3=28", "3*8=25;5-2=3;24+3=", "3*8=24;"]
    statuses = [verdict.status for verdict in calculator.verify([problem] * 5, whole)]
    assert statuses == ["right", "right", "wrong", "wrong", "unparseable"]


def test_problems_are_those_of_countdown(calculator):
    from isentropic.task.countdown import Countdown

    plain = Countdown(numbers=4, largest=9, limit=99, held_out=0.1, seed=0)
    assert plain.problems("test")[3] == calculator.problems("test")[3]


def test_made_answers_are_right_step_by_step(calculator):
    for index in range(20):
        problem, answer = calculator.worked("train", index)
        episode = calculator.begin(problem, 0)
        replies = [episode.step(step.partition("=")[0] + "=") for step in answer.split(";")]
        assert replies[-1].verdict.correct and not any(reply.verdict for reply in replies[:-1])
        assert calculator.verify([problem], [answer])[0].correct


@pytest.fixture
def choice():
    return Calculator(numbers=4, largest=9, limit=99, held_out=0.1, seed=0, optional=True)


@pytest.mark.golden
def test_results_may_be_written_or_asked_for(choice, calculator):
    assert (choice.stop, calculator.stop) == ("?", "=")
    assert said(choice, "3*8=?", "5-2=?", "24+3=?") == ["24;", "3;", "wrong"]
    assert said(choice, "3*8=24;5-2=?", "24+3=27") == ["3;", "wrong"]
    assert said(choice, "3*8=24;5-2=3;24+3=27") == ["wrong"]
    target = Problem("3,8,5,2>27:", ((3, 8, 5, 2), 27))
    for turns in (["3*8=?", "5-2=?", "24+3=?"], ["3*8=24;5-2=?", "24+3=27"], ["3*8=24;5-2=3;24+3=27"]):
        episode = choice.begin(target, 0)
        replies = [episode.step(turn) for turn in turns]
        assert replies[-1].verdict == Verdict(1.0, True, "right")
        assert [reply.calls for reply in replies] == [int(turn.endswith("?")) for turn in turns]


@pytest.mark.golden
def test_a_result_of_ones_own_must_be_right_and_the_last_step_leave_nothing(choice):
    assert said(choice, "3*8=25;5-2=?") == ["wrong"]
    assert said(choice, "3*8=24") == ["wrong"]  # two numbers are left
    assert said(choice, "9*9=81;5-2=?") == said(choice, "9*9=?") == ["wrong"]
    for text in ("3*8=", "3*8=?24", "3*8=?;5-2=3", "3*8=24;", "3*8", "", "?", "3*8=24?", "3*8=??", "03*8=?"):
        assert said(choice, text) == ["unparseable"], text


def test_transcripts_are_judged_with_either_kind_of_result(choice):
    problem = Problem("3,8,5,2>27:", ((3, 8, 5, 2), 27))
    whole = ["3*8=?24;5-2=3;24+3=?", "3*8=24;5-2=3;24+3=27", "3*8=?25;5-2=3;24+3=27", "3*8=?24;", "3*8=?24;5-2=?"]
    statuses = [verdict.status for verdict in choice.verify([problem] * 5, whole)]
    assert statuses == ["right", "right", "wrong", "unparseable", "unparseable"]


def test_made_answers_ask_for_a_share_of_their_results(choice):
    answer, draw = "3*8=24;5-2=3;24+3=27", Random(0)
    assert asking(answer, 1.0, draw) == "3*8=?24;5-2=?3;24+3=?27" and asking(answer, 0.0, draw) == answer
    assert {asking(answer, 0.5, draw).count("?") for _ in range(50)} == {0, 1, 2, 3}
    for index in range(20):
        problem, made = choice.worked("train", index)
        assert choice.verify([problem], [asking(made, 0.5, draw)])[0].correct
