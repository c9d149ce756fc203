"""What the best constant earns in our own tasks and in sets of mathematics, and which golds are earned by themselves.

python benchmarks/audit_sets.py --data FOLDER            # two tables, as in docs/audit.md
python benchmarks/audit_sets.py --data FOLDER math500    # one set or task
"""

import json
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from sys import maxsize
from typing import Any

from isentropic.config.build import build
from isentropic.config.compose import CONFIGS, compose, loader_of
from isentropic.task import Problem, Task
from isentropic.task.audit import NOTABLE, PROBLEMS, audit, unearnable
from isentropic.task.environment import Environment

SETS = (
    *("aime24", "aime25", "amc23", "gsm8k", "gsm8k_train", "math500", "minerva", "olympiad", "svamp"),
    *("dapo_math_17k", "deepmath_5k", "mawps"),
)
TASKS = {
    "arithmetic": ["task=arithmetic"],
    "countdown": ["task=countdown"],
    "noise": ["task=noise"],
    "calculator": ["task=calculator"],
    "guess": ["task=guess"],
    "lookup": ["task=lookup"],
    "calc": ["task=calc", "task.task.name=chain_sum"],
    "interpreter": ["task=interpreter", "task@task.task=arithmetic"],
}
HEADS = ("problems", "best constant", f"of {PROBLEMS}", "golds earned", "duplicates")


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("names", nargs="*", help="of sets and tasks; all without any")
    parser.add_argument("--data", default="data")
    settings = parser.parse_args()
    for kind, names in (("task", TASKS), ("set", SETS)):
        chosen = [name for name in names if name in settings.names or not settings.names]
        if chosen:
            print(f"| {kind} | {' | '.join(HEADS)} |\n|{' --- |' * (1 + len(HEADS))}", flush=True)
        for name in chosen:
            print(line(found(name, settings.data)), flush=True)


def found(name: str, data: str) -> dict[str, Any]:
    task, problems = made(name, data)
    tried = [problems[i] for i in range(min(PROBLEMS, len(problems)))]
    best = audit(task, tried).best
    whole = tried if len(problems) == maxsize else list(problems)
    known = [problem for problem in whole if task.gold(problem) is not None and not isinstance(task, Environment)]
    lost = unearnable(task, known)
    task.close()
    for problem in lost:
        print(json.dumps({"not earned": str(problem.reference)}), flush=True)
    return {
        "name": name,
        "problems": None if len(problems) == maxsize else len(problems),
        "best": best,
        "golds": (len(known) - len(lost), len(known)),
        "duplicates": sum(count - 1 for count in Counter(problem.prompt for problem in whole).values()),
    }


def made(name: str, data: str) -> tuple[Task, Sequence[Problem]]:
    """A task by its settings, with its problems: of a set, as test problems of task=math."""
    other = "svamp" if name == "mawps" else "mawps"  # to train on, which a set that is tested cannot be
    sets = [f"task/set@task.test=[{name}]", f"task/set@task.train=[{other}]", "task.workers=1", f"paths.data={data}"]
    cfg = compose(loader_of(CONFIGS), "train", TASKS.get(name, ["task=math", *sets]))
    task: Task = build(cfg, "task")
    return task, task.problems("train" if name in TASKS else "test")


def line(row: dict[str, Any]) -> str:
    best, (earned, known) = row["best"], row["golds"]
    answer = best.answer.replace("\n", " ").replace("|", "/").replace("`", "'")[:40]
    mean = f"**{best.reward:.3f}**" if best.reward >= NOTABLE else f"{best.reward:.3f}"
    count = "without end" if row["problems"] is None else f"{row['problems']:,}"
    golds = f"{earned:,} of {known:,}" if known else "none named"
    return f"| `{row['name']}` | {count} | {mean} | `{answer}` | {golds} | {row['duplicates']} |"


if __name__ == "__main__":
    main()
