"""How long a verdict takes, by kind of judge: from a text in the trainer to its verdict there, one after another.

    python benchmarks/judges.py --out benchmarks/results/judges.json

Texts are right and wrong ones in turn, all different, since equal ones are judged once. Median, 99th percentile and
mean of single verdicts in milliseconds, and seconds until the first one, which waits for the process to start.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from isentropic.task.judge_pool import JudgePool
from isentropic.task.reasoning_gym import ReasoningGym
from isentropic.tools.interpreter import Interpreter
from isentropic.tools.probe import available

GYM = ("chain_sum", "countdown", "puzzle24", "polynomial_multiplication", "simple_integration", "spiral_matrix")
FORMULAS = (r"\frac{%d}{7}", r"%d\sqrt{2}+1", r"(%d, \infty)", r"x^2+%dx+1", r"\begin{pmatrix}%d\\2\end{pmatrix}")
SETTLING = 5.0  # seconds in which the spare process starts
Judged = Callable[[int], Any]  # a verdict of the text of this number


def numbers(judges: JudgePool) -> Judged:
    return lambda k: judges([("72", rf"So it is \boxed{{{72 + k % 3}}}{' ' * k}", "####", "strict")])


def formulas(judges: JudgePool) -> Judged:
    def judge(k: int) -> Any:
        gold = FORMULAS[k % len(FORMULAS)]
        return judges([(gold % 5, rf"So it is \boxed{{{gold % (5 + k % 2)}}}{' ' * k}", "####", "strict")])

    return judge


def gym(name: str) -> tuple[ReasoningGym, Judged]:
    task = ReasoningGym(
        name=name, options={}, template="{question}", marker="Answer:", held_out=0.1, seed=0, partial_credit=False,
        workers=1, timeout=5.0, memory=4.0,
    )  # fmt: skip
    problems = [task.problems("train")[k] for k in range(20)]

    def judge(k: int) -> Any:
        problem, other = problems[k % 20], problems[(k + k % 2) % 20]
        return task.verify([problem], [f"{'.' * k} Answer: {other.reference['answer']}"])

    return task, judge


def timed(judge: Judged, repeats: int) -> dict[str, float]:
    begun = time.perf_counter()
    judge(0)
    first = time.perf_counter() - begun
    time.sleep(SETTLING)
    times: list[float] = []
    for k in range(1, repeats + 1):
        begun = time.perf_counter()
        judge(k)
        times.append(1000 * (time.perf_counter() - begun))
    times.sort()
    return {
        "median": round(statistics.median(times), 2),
        "p99": round(times[min(len(times) - 1, int(0.99 * len(times)))], 2),
        "mean": round(statistics.fmean(times), 2),
        "first_s": round(first, 2),
    }


def kinds(chosen: list[str]) -> Iterator[tuple[str, Any, Judged]]:
    """Each kind with what is to be closed after it."""
    for name, make in (("numbers", numbers), ("formulas", formulas)):
        if name in chosen:
            judges = JudgePool("isentropic.task.math_judge:judge", 1, 5.0, 4.0)
            yield name, judges, make(judges)
    for name in GYM:
        if name in chosen:
            yield name, *gym(name)
    if "program" in chosen:
        from isentropic.tools.cage import STRICT

        interpreter = Interpreter(1, 5.0, 4.0, 10_000, "last", STRICT)
        numbered = count()
        yield "program", interpreter, lambda _: interpreter([f"print({next(numbered)} ** 2)"])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = ["numbers", "formulas", *GYM, "program"]
    parser.add_argument("--kinds", nargs="+", default=everything, choices=everything)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    found: dict[str, dict[str, float]] = {}
    for name, closed, judge in kinds(given.kinds):
        found[name] = timed(judge, given.repeats)
        closed.close()
        print(f"{name:28}" + "  ".join(f"{key} {value:8}" for key, value in found[name].items()), flush=True)
    if given.out:
        machine = {"processor": platform.machine(), "python": platform.python_version(), "cage": list(available())}
        given.out.write_text(json.dumps({**machine, "repeats": given.repeats, "ms": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
