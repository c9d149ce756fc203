from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from reasoning_gym.factory import DATASETS, create_dataset

from isentropic.task import Problem, Task, Verdict
from isentropic.task.arithmetic import Arithmetic
from isentropic.task.audit import FEW, FEW_PROBLEMS, GOLDS, audit, short, unearnable, warning
from isentropic.task.guess import Guess
from isentropic.task.math_dataset import Math, ProblemSet
from isentropic.task.reasoning_gym import ReasoningGym, dataset, grade, plain

SETTINGS = {"marker": "Answer:", "held_out": 0.1, "seed": 0}
JUDGED = {"workers": 1, "timeout": 30.0, "memory": 4.0}


@dataclass(frozen=True)
class Longer(Task):
    """Pays for length: one letter of eleven."""

    def problems(self, split):
        return [Problem(f"{index}?", str(index)) for index in range(30)]

    def verify(self, problems, texts):
        return [Verdict(min(1.0, len(text) / 11), len(text) >= 11, "right") for text in texts]


def test_the_best_constant_is_found_and_named():
    found = audit(Longer(), Longer().problems("train"))
    assert found.best.answer == "No solution" and found.best.reward == 1 and found.best.correct == 1
    assert found.earnings == sorted(found.earnings, key=lambda one: -one.reward)
    assert "'No solution' to every problem earns 1.000" in warning(found)
    assert any(one.answer == "the prompt" for one in found.earnings)


def test_sums_pay_for_no_constant_and_each_gold_earns():
    task = Arithmetic(pattern="1..999+-1..999", template="Q: {question}", **SETTINGS)
    found = audit(task, task.problems("train")[:40])
    assert found.best.reward <= 2 / 40 and warning(found) is None
    assert found.unearnable == [] and found.unknown == 0
    golds = {task.gold(problem) for problem in task.problems("train")[:GOLDS]}
    assert golds <= {one.answer for one in found.earnings}


@pytest.mark.slow
def test_a_task_of_reasoning_gym_is_tried_in_its_own_processes():
    task = ReasoningGym(
        name="complex_arithmetic", options={}, template="{question}", partial_credit=True, **SETTINGS, **JUDGED
    )
    found = audit(task, task.problems("train")[:12], (*FEW, "inf", "nan+nanj", "1+1j"), golds_tried=4)
    task.close()
    assert found.best.correct <= 2 / 12 and found.unearnable == []


def test_a_task_of_several_turns_is_played_with_the_same_turn_again_and_again():
    task = Guess(
        numbers=3, largest=99, guesses=2, template="{question}", marker="Guess:", higher="Higher", lower="Lower",
        held_out=0.1, seed=0,
    )  # fmt: skip
    problems = [replace(problem, reference=(2, 4)) for problem in task.problems("train")[:30]]
    found = audit(task, problems, ("2", "3", "4", "5", ""), golds_tried=0)
    rewards = {one.answer: one.reward for one in found.earnings}
    assert rewards["5"] == rewards[""] == 0 and sum(rewards[number] for number in "234") == pytest.approx(1)
    assert "right for" in warning(found) and short(task, problems) is None  # a run's start plays no episode


def test_golds_that_nobody_can_earn_are_listed(tmp_path):
    golds = ["5", r"\frac{1}{2}", r"\frac{1}{", "???", r"\left(1, 2", "...", "west", "x = 5", "1, 2", "$", "}{"]
    rows = tmp_path / "golds.csv"
    rows.write_text("\n".join(['"problem","answer"', *(f'"{place}?","{gold}"' for place, gold in enumerate(golds))]))
    test = tmp_path / "test.csv"
    test.write_text('"problem","answer"\n"other?","1"')
    sets = [ProblemSet(str(path), None, "test", "problem", "answer", "") for path in (rows, test)]
    task = Math(
        train={"one": sets[0]},
        test={"two": sets[1]},
        longest=None,
        validation=0,
        bad_answers="drop",
        template="{question}",
        marker="Answer:",
        strictness="strict",
        **JUDGED,
    )
    problems = task.problems("train")
    assert [problem.reference for problem in unearnable(task, problems)] == [
        r"\frac{1}{",
        "???",
        r"\left(1, 2",
        "...",
        "$",
        "}{",
    ]
    task.close()


TABLE = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
OPTIONS = {"composite": plain({"datasets": [{"name": "gcd"}, {"name": "lcm"}, {"name": "simple_equations"}]})}


def earned(name, entry, answer):
    """Nothing where the library's scorer raises, which ends a judge."""
    try:
        return grade(name, OPTIONS.get(name, ()), "", False, entry, answer)[0]
    except Exception:
        return 0.0


SLOW = dict.fromkeys(("knight_swap", "sokoban", "futoshiki"), 6)  # problems, where one takes up to seconds to be made


@pytest.mark.slow
def test_what_no_one_worked_out_earns_in_no_task_of_reasoning_gym_but_those_of_the_table():
    """The constants of a start, on 16 problems of nearly every task; the table is of 60, by `benchmarks/audit.py`."""
    of_reasoning_gym, _ = TABLE.split("\n## In our own tasks", 1)
    rows = [line.split("|") for line in of_reasoning_gym.splitlines() if line.startswith("| `")]
    told = {name.strip(" `"): "**" in earned for _, name, earned, *_ in rows}
    assert told.keys() == DATASETS.keys()
    found: dict[str, float] = {}
    for name in told:
        count = SLOW.get(name, FEW_PROBLEMS)
        made = dataset(name, OPTIONS[name], 5) if name in OPTIONS else create_dataset(name, seed=5, size=count)
        entries = [made[i] for i in range(count)]
        found[name] = max(sum(earned(name, entry, answer) for entry in entries) / count for answer in FEW)
    assert {name for name, mean in found.items() if mean > 0.35 and not told[name]} == set()
    assert {name for name, mean in found.items() if mean > 0.35}, "where an answer is one of two, one of them is"
