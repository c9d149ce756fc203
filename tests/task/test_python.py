"""Turns with a program, with an answer, and with neither."""

import sys

import pytest
from fixtures.tasks import Digits

from isentropic.task import Problem, Task, Verdict
from isentropic.task.calculator import Calculator
from isentropic.task.python import WithPython
from isentropic.tools.cage import Cage

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a cage")
PROBLEM = Problem("What is 2 to the 10th?", "1024")


class Boxed(Task):
    """Answers stand after a colon."""

    def problems(self, split):
        return [PROBLEM]

    def sets(self, split):
        return {"powers": 1}

    def verify(self, problems, texts):
        statuses = ["unparseable" if ":" not in text else "right" if "1024" in text else "wrong" for text in texts]
        return [Verdict(float(status == "right"), status == "right", status) for status in statuses]


@pytest.fixture(scope="module")
def task():
    made = WithPython(Boxed(), 2, 1.0, 4.0, 1000, "last", 40, "none", 5.0, Cage(least=["seccomp"], required=False))
    yield made
    made.close()


def program(text):
    return f"Let me see.\n```python\n{text}\n```\n"


def test_a_program_is_run_and_what_it_printed_is_said(task):
    episode = task.begin(PROBLEM, 0)
    reply = episode.step(program("print(2**10)"))
    assert (
        reply.text == "\nCode execution result: 1024\n"
        and reply.verdict is None
        and (reply.calls, reply.failed) == (1, 0)
    )
    assert episode.step("so it is: 1024").verdict == Verdict(1.0, True, "right")
    episode.close()


def test_an_error_is_said_by_its_last_line_and_is_no_failure_of_the_call(task):
    reply = task.begin(PROBLEM, 0).step(program("1/0"))
    assert "ZeroDivisionError: division by zero" in reply.text and "Traceback" not in reply.text and reply.failed == 0


def test_a_long_output_is_read_with_its_middle_cut_out(task):
    reply = task.begin(PROBLEM, 0).step(program("print('a' * 30 + 'b' * 30)"))
    assert reply.text == f"\nCode execution result: {'a' * 20}...{'b' * 20}\n" and reply.failed == 0
    reply = task.begin(PROBLEM, 0).step(program("raise ValueError('x' * 100 + 'end')"))
    assert reply.text.startswith("\nCode execution result: ValueError: xxx") and reply.text.endswith("xend\n")


@pytest.mark.parametrize("text", ["while True: pass", "import os; os.abort()"])
def test_a_program_that_does_not_end_by_itself_is_a_failed_call(task, text):
    reply = task.begin(PROBLEM, 0).step(program(text))
    assert (reply.calls, reply.failed) == (1, 1) and reply.verdict is None


def test_the_last_program_of_a_turn_is_run_and_an_answer_after_it_is_taken(task):
    episode = task.begin(PROBLEM, 0)
    assert "Code execution result: 2\n" in episode.step(program("print(1)") + program("print(2)")).text
    assert episode.step("it may be: 7\n" + program("print(3)")).text == "\nCode execution result: 3\n"
    assert episode.step(program("print(1)") + "it is: 7").verdict.status == "wrong"


@pytest.mark.parametrize("text", ["", "Let me think.", "```python\nprint(1)", "```"])
def test_a_turn_with_neither_is_void(task, text):
    reply = task.begin(PROBLEM, 0).step(text)
    assert reply.void and reply.calls == 0 and reply.verdict == Verdict(0.0, False, "void")


def test_nothing_is_kept_between_programs_and_no_reference_is_seen(task):
    episode = task.begin(PROBLEM, 0)
    episode.step(program("secret = 5"))
    assert "NameError" in episode.step(program("print(secret)")).text


def test_sets_of_the_task_are_judged_apart(task):
    assert task.sets("test") == {"powers": 1} and task.problems("test") == [PROBLEM]


def test_several_turns_within_several_turns_are_refused(parts):
    with pytest.raises(ValueError, match=r"task\.task is Calculator, which has several turns"):
        WithPython(Calculator(3, 9, 99, 0.1, 0), 1, 1.0, 1.0, 100, "last", None, "none", 1.0)
    with pytest.raises(ValueError, match=r"task\.shown=1 characters have no head and tail"):
        WithPython(Digits(parts.sums()), 1, 1.0, 1.0, 100, "last", 1, "none", 1.0)
    with pytest.raises(ValueError, match=r"task\.timeout=0\.0 lets no program run"):
        WithPython(Digits(parts.sums()), 1, 0.0, 1.0, 100, "last", None, "none", 1.0)


@pytest.fixture(scope="module")
def stateful():
    made = WithPython(Boxed(), 2, 1.0, 4.0, 1000, "last", None, "episode", 5.0, Cage(least=["seccomp"], required=False))
    yield made
    made.close()


def test_with_state_variables_stay_until_the_episode_ends_and_in_no_other(stateful):
    episode, other = stateful.begin(PROBLEM, 0), stateful.begin(PROBLEM, 0)
    episode.step(program("x = 2**10"))
    reply = episode.step(program("print(x)"))
    assert reply.text == "\nCode execution result: 1024\n" and 0 < reply.seconds < 1
    assert "NameError" in other.step(program("print(x)")).text
    assert episode.step("so it is: 1024").verdict == Verdict(1.0, True, "right")
    episode.close()
    assert "crash" in episode.step(program("print(x)")).text  # nothing is started for an episode that is closed
    other.close()


@pytest.mark.parametrize(
    ("text", "said", "failed"),
    [
        ("while True: pass", "timeout; variables of earlier programs are lost", 1),
        ("import os; print(5, flush=True); os._exit(0)", "5\nvariables of earlier programs are lost", 0),
        ("x = 'a' * 10**11", "MemoryError\nmemory; variables of earlier programs are lost", 1),
    ],
)
def test_that_variables_are_lost_is_said_once(stateful, text, said, failed):
    episode = stateful.begin(PROBLEM, 0)
    episode.step(program("x = 1"))
    reply = episode.step(program(text))
    assert reply.text == f"\nCode execution result: {said}\n" and (reply.calls, reply.failed) == (1, failed)
    assert "lost" not in episode.step(program("print(1)")).text
    episode.close()
