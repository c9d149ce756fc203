import pytest
from fixtures.tasks import Digits

from isentropic.task import Problem, Verdict
from isentropic.task.calc import WithCalculator
from isentropic.task.calculator import Calculator

PROBLEM = Problem("3+5=", 8)


@pytest.fixture
def episode(parts):
    return WithCalculator(parts.sums(), stop="\n").begin(PROBLEM, 0)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("line", "told"),
    [("calc(3 + 5)\n", "= 8\n"), ("A: calc(3-5)", "= -2\n"), ("calc(-2*-4) ", "= 8\n"), ("calc( 0 - 0 )\n", "= 0\n")],
)
def test_a_line_that_ends_in_a_call_is_told_the_result(episode, line, told):
    reply = episode.step(line)
    assert (reply.text, reply.verdict, reply.calls, reply.failed) == (told, None, 1, 0)


def test_a_line_without_a_call_is_the_answer(episode):
    assert episode.step("8").verdict == Verdict(1.0, True, "right")
    assert episode.step("9").verdict.status == "wrong"
    reply = episode.step("so")
    assert reply.void and reply.verdict.status == "unparseable" and reply.calls == 0


@pytest.mark.parametrize("line", ["calc(3 + )", "calc(3 / 5)", "calc(3 + 5", f"calc({'9' * 5000} + 1)", "calc(a + b)"])
def test_a_call_that_is_no_sum_of_two_numbers_fails_and_ends_the_episode(episode, line):
    reply = episode.step(line)
    assert not reply.verdict.correct and (reply.calls, reply.failed, reply.void) == (1, 1, False)


def test_several_turns_within_several_turns_are_refused():
    with pytest.raises(ValueError, match=r"task\.task is Calculator, which has several turns"):
        WithCalculator(Calculator(3, 9, 99, 0.1, 0))


def test_problems_and_markers_are_those_of_the_task(parts):
    task = WithCalculator(Digits(parts.sums()))
    assert task.problems("test")[0] == parts.sums().problems("test")[0]
