import pytest

from isentropic.evaluation.by_task import ByTask, Rule
from isentropic.evaluation.grader import Item
from isentropic.task.countdown import Countdown


@pytest.fixture(scope="module")
def rule():
    made = Rule(marker="Answer:", strictness="strict", workers=1, timeout=5.0, memory=4.0)
    yield ByTask("rule", made)
    made.close()


def test_the_rule_judges_final_answers_of_any_set(rule):
    texts = [r"so \boxed{\frac{1}{2}}", "Answer: 0.5", r"\boxed{2}", "no idea"]
    grades = rule.grade([Item("half of one?", "1/2", text) for text in texts])
    assert [(one.right, one.status) for one in grades] == [
        (True, "right"), (True, "right"), (False, "wrong"), (False, "unparseable"),
    ]  # fmt: skip
    assert [one.extracted for one in grades] == [r"\frac{1}{2}", "0.5", "2", None]
    assert rule.written("7") == r"\boxed{7}"


def test_a_task_judges_its_own_problems():
    task = Countdown(numbers=3, largest=9, limit=99, held_out=0.1, seed=0)
    problem, steps = task.worked("test", 0)
    grader = ByTask("task", task, {problem.prompt: problem})
    right, wrong = grader.grade([Item(problem.prompt, "", steps), Item(problem.prompt, "", "1+1=3")])
    assert (right.right, right.extracted, wrong.right) == (True, steps, False)


def test_strictness_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="strictness"):
        Rule(marker="", strictness="lenient", workers=1, timeout=5.0, memory=4.0)
