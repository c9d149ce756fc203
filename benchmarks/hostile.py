"""Hostile answers against every judge: how many are contained, as whoever runs this or as an ordinary user.

    python benchmarks/hostile.py                        # mathematics, gsm8k and every task of reasoning_gym
    python benchmarks/hostile.py --kinds math composite --user

Contained is an answer that earns nothing, leaves the folder beside it untouched, and after which a right answer is
right and a wrong one is not. `--user` starts the judges as user 12345, which only root can. The answers are those of
the tests.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reasoning_gym.factory import DATASETS

from isentropic.task import Verdict
from isentropic.task.judge_pool import JudgePool
from isentropic.task.reasoning_gym import ReasoningGym
from isentropic.tools.pool import Pool

TESTS = Path(__file__).parents[1] / "tests"
sys.path.append(str(TESTS))
from fixtures.hostile import AS_USER, Bait  # noqa: E402
from fixtures.hostile_answers import EXPRESSIONS, FOLDER, HEAVY, LATEX, TEXTS, bought  # noqa: E402

MATHS = {"math": ("", r"So \boxed{%s}"), "gsm8k": ("####", "So\n#### %s")}
OPTIONS = {"composite": {"datasets": [{"name": "simple_integration"}, {"name": "countdown"}]}}
SHAPES = ("Answer: %s", "Answer: 1 + %s", "Answer: [%s]")
Judge = Callable[[Sequence[str]], list[Verdict]]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = [*MATHS, *sorted(DATASETS)]
    parser.add_argument("--kinds", nargs="+", default=everything, choices=everything, metavar="KIND")
    parser.add_argument("--user", action="store_true")
    given = parser.parse_args(arguments)
    whole = 0
    for name in given.kinds:
        begun = time.monotonic()
        tried, let_through = mathematics(name, given.user) if name in MATHS else gym(name, given.user)
        whole += tried
        row = {"kind": name, "answers": tried, "contained": tried - len(let_through), "let_through": let_through}
        print(json.dumps(row | {"seconds": round(time.monotonic() - begun, 1)}), flush=True)
    print(json.dumps({"kinds": len(given.kinds), "answers": whole}))


def mathematics(name: str, user: bool) -> tuple[int, list[str]]:
    marker, shape = MATHS[name]
    judges = JudgePool("isentropic.task.math_judge:judge", 1, 0.5, 2.0)
    judges.pool = as_user(judges.pool, user)
    texts = [shape % answer for answer in (*EXPRESSIONS, *HEAVY, *LATEX)] + TEXTS
    found = tried(
        lambda some: judges([("72", text, marker, "strict") for text in some]), texts, shape % "72", shape % "71"
    )
    judges.close()
    return len(texts), found


def gym(name: str, user: bool) -> tuple[int, list[str]]:
    task = ReasoningGym(
        name=name, options=OPTIONS.get(name, {}), template="{question}", marker="Answer:", held_out=0.1, seed=0,
        partial_credit=False, workers=1, timeout=0.5, memory=4.0,
    )  # fmt: skip
    problems = [task.problems("train")[i] for i in range(20)]
    problem = next((one for one in problems if has_a_right_answer(task, one)), problems[0])
    task.judges.pool = as_user(task.judges.pool, user)
    texts = [shape % answer for shape in SHAPES for answer in EXPRESSIONS]
    texts += [f"Answer: {answer}" for answer in (*HEAVY, *LATEX)] + TEXTS
    right = task.written(str(problem.reference["answer"])) if has_a_right_answer(task, problem) else None
    found = tried(lambda some: task.verify([problem] * len(some), some), texts, right, "Answer: no such answer")
    task.close()
    return len(texts), found


def has_a_right_answer(task: ReasoningGym, problem: Any) -> bool:
    known = task.gold(problem)
    return known is not None and task.verify([problem], [task.written(known)])[0].correct


def as_user(pool: Pool, user: bool) -> Pool:
    return Pool(replace(pool.settings, command=AS_USER), 1) if user else pool


def tried(judge: Judge, texts: Sequence[str], right: str | None, wrong: str) -> list[str]:
    """What was let through: answers that earned, and a word for a folder that was touched or a verdict that changed.

    Some tasks name no right answer, and so no verdict that could be changed.
    """
    bait = Bait(Path(FOLDER))
    try:
        if right is None:
            found = [
                text[:100] for text, one in zip(texts, judge(texts), strict=True) if one.correct or one.reward >= 1
            ]
        else:
            found = list(bought(judge, texts, right, wrong))
    except AssertionError:
        found = ["another verdict"]
    if not bait.untouched():
        found.append("the folder")
    shutil.rmtree(bait.path)
    return found


if __name__ == "__main__":
    main()
