"""Whatever a policy in a loop writes: eight times the text takes some eight times the CPU time, not sixty-four."""

import time
from functools import partial

import pytest
from fixtures.long_texts import AROUND, REPEATED, long_text

from isentropic.evaluation.grade_dapo_answer import DapoAnswer
from isentropic.evaluation.grade_last_number import LastNumber
from isentropic.evaluation.grade_stare import after_reasoning, answer_part
from isentropic.reward.format import tagged
from isentropic.reward.language import share
from isentropic.reward.repetition import repeated
from isentropic.task.answers import after_marker, final_answer, very_last_box, whole_integer
from isentropic.task.calc import ASKED
from isentropic.task.comparisons import CHECKS
from isentropic.task.countdown import check
from isentropic.task.equality import grade
from isentropic.task.kinds import qwen_found
from isentropic.task.python import PROGRAM
from isentropic.task.reasoning_gym import answer_in

SHORT, TIMES, SLACK, FLOOR = 8_000, 8, 3, 0.006  # characters, times as long, over what is linear, seconds of noise
FURTHER = ("in a box", "before a box", "in an open box")  # where only what looks for boxes has more to do


def compared(rule, text):
    """By a grader's rule, as in its caged process."""
    return CHECKS[rule]("72", text)


READ = {
    "mathematics": lambda text: grade("72", text, "Answer:", "strict"),
    "the last box or line": lambda text: final_answer(text, "Answer:"),
    "the very last box": very_last_box,
    "an integer": lambda text: whole_integer(after_marker(text, "Answer:") or ""),
    "tags of an answer": lambda text: after_marker(text, "<answer>"),
    "reasoning_gym's line": lambda text: answer_in(text, "Answer:", {"answer": "7"}),
    "countdown's steps": lambda text: check(((3, 8, 5), 24), text),
    "the format": lambda text: tagged(text, ["think", "answer"], opened=False),
    "the language": lambda text: share(text, {"LATIN"}),
    "repetition": lambda text: repeated(list(map(ord, text)), 20),
    "a call of the calculator": ASKED.search,
    "the last number": LastNumber("last_number").found,
    "DAPO's answer": DapoAnswer("dapo_answer").found,
    "Qwen's answer": qwen_found.found,
    "STARE's answer": lambda text: answer_part(after_reasoning(text, closed=False) or ""),
    **{f"the rule {rule}": partial(compared, rule) for rule in CHECKS},
    "a program": lambda text: [found[1] for found in PROGRAM.finditer(text)],
}


def seconds(read, text):
    """Of this process, whatever else the machine does."""
    begun = time.process_time()
    read(text)
    return time.process_time() - begun


def is_slow(read, name, around):
    """Whether it is so each time, as the first may load something, and noise is seldom twice in one place."""
    for _ in range(4):
        short, long = (seconds(read, long_text(name, around, SHORT * times)) for times in (1, TIMES))
        if long <= SLACK * TIMES * short + FLOOR:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("reads", READ)
def test_what_reads_an_answer_takes_a_time_linear_in_its_length(reads):
    places = [around for around in AROUND if "box" in reads or reads == "mathematics" or around not in FURTHER]
    slow = [(name, around) for name in REPEATED for around in places if is_slow(READ[reads], name, around)]
    assert slow == []


@pytest.mark.parametrize("rule", CHECKS)
def test_a_grader_gives_up_on_what_is_too_long_to_compare(rule):
    """One that would read it all would take an hour."""
    for form in ("%s", r"\boxed{%s}"):
        assert compared(rule, form % ("9^" * 400_000)) != "right"
