"""How long a verdict takes, by kind of judge: from a text in the trainer to its verdict there, one after another.

    python benchmarks/judges.py --out benchmarks/results/judges.json

Texts are right and wrong ones in turn, all different, since equal ones are judged once. Median, 99th percentile and
mean of single verdicts in milliseconds, the CPU time of one (of which other work on the machine takes nothing), and
seconds until the first one, which waits for the process to start.
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from isentropic.reward.isolated import Pool as Isolated
from isentropic.task.judge_pool import JudgePool
from isentropic.task.reasoning_gym import ReasoningGym
from isentropic.tools.cage import STRICT
from isentropic.tools.interpreter import Interpreter
from isentropic.tools.pool import Pool
from isentropic.tools.probe import available

GYM = (
    *("chain_sum", "countdown", "puzzle24", "polynomial_multiplication", "simple_integration"),
    *("intermediate_integration", "spiral_matrix"),
)
KINDS = {  # a gold, and how else it may be written; every second answer is of another number, and wrong
    "integer": ("%d", r"%d.0"),
    "rational": (r"\frac{%d}{7}", "%d/7"),
    "decimal": ("%d.25", "%d.250"),
    "tuple": (r"(%d, \frac{1}{2})", r"\left(%d, 0.5\right)"),
    "set": (r"\{%d, -1\}", "-1, %d"),
    "interval": (r"[%d, \infty)", r"x \ge %d"),
    "equation": ("y = 2x + %d", "2x - y + %d = 0"),
    "expression": ("x^2 + %dx - 1", "x(x + %d) - 1"),
    "matrix": (r"\begin{pmatrix}%d\\2\end{pmatrix}", r"\begin{bmatrix} %d \\ 2 \end{bmatrix}"),
    "text": ("town number %d", "Town Number %d."),
    "unit": ("%d m", "%d00 cm"),
    "choice": ("%s", "(%s)"),
}
SETTLING = 5.0  # seconds in which the spare process starts
TICKS = os.sysconf("SC_CLK_TCK")
Judged = Callable[[int], Any]  # a verdict of the text of this number
OWN = Isolated("verl", f"{Path(__file__).resolve()}:compute_score", 1, 5.0, 4.0)


def mathematics(judges: JudgePool, kind: str, marker: str = "") -> Judged:
    gold, other = KINDS[kind]

    def judge(k: int) -> Any:
        values = [11 + k, 11 + k + k % 2]
        wanted, given = ["ABCDEFGH"[v % 8] for v in values] if kind == "choice" else values
        shape = f"So\n{marker} %s" if marker else r"So it is \boxed{%s}"
        return judges([(gold % wanted, shape % (other % given) + " " * k, marker, "strict")])

    return judge


def function(k: int) -> Any:
    """A user's own, isolated: it is called as verl calls it."""
    return OWN([{"data_source": "", "solution_str": f"{'.' * k} 72", "ground_truth": "72", "extra_info": {}}])


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None) -> float:
    return float(solution_str.split()[-1] == ground_truth)


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


def timed(judge: Judged, repeats: int, pool: Pool) -> dict[str, float]:
    begun = time.perf_counter()
    judge(0)
    first = time.perf_counter() - begun
    time.sleep(SETTLING)
    times, before = list[float](), spent(pool)
    for k in range(1, repeats + 1):
        begun = time.perf_counter()
        judge(k)
        times.append(1000 * (time.perf_counter() - begun))
    times.sort()
    return {
        "median": round(statistics.median(times), 2),
        "p99": round(times[min(len(times) - 1, int(0.99 * len(times)))], 2),
        "mean": round(statistics.fmean(times), 2),
        "cpu": round(1000 * (spent(pool) - before) / repeats, 2),
        "first_s": round(first, 2),
    }


def spent(pool: Pool) -> float:
    """CPU seconds so far of this process, and of the servers and all that they forked, from 0.01 on."""
    servers = {worker.process.pid for worker in pool.workers if worker.process}
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = stat.read_text().rpartition(")")[2].split()
            if {int(stat.parent.name), int(fields[1])} & servers:  # in namespaces, who forks is a server's child
                ticks += sum(map(int, fields[11:15]))
    return time.process_time() + ticks / TICKS


def kinds(chosen: list[str]) -> Iterator[tuple[str, Any, Pool, Judged]]:
    """Each kind with what is to be closed after it, and its processes."""
    for name in (*KINDS, "gsm8k"):
        if name in chosen:
            judges = JudgePool("isentropic.task.math_judge:judge", 1, 5.0, 4.0)
            judge = mathematics(judges, "integer", "####") if name == "gsm8k" else mathematics(judges, name)
            yield name, judges, judges.pool, judge
    for name in GYM:
        if name in chosen:
            task, judge = gym(name)
            yield name, task, task.judges.pool, judge
    if "function" in chosen:
        yield "function", OWN, OWN.judges.pool, function
    if "program" in chosen:
        interpreter = Interpreter(1, 5.0, 4.0, 10_000, "last", STRICT)
        numbered = count()
        yield "program", interpreter, interpreter.pool, lambda _: interpreter([f"print({next(numbered)} ** 2)"])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = [*KINDS, "gsm8k", *GYM, "function", "program"]
    parser.add_argument("--kinds", nargs="+", default=everything, choices=everything)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    found: dict[str, dict[str, float]] = {}
    for name, closed, pool, judge in kinds(given.kinds):
        found[name] = timed(judge, given.repeats, pool)
        closed.close()
        print(f"{name:28}" + "  ".join(f"{key} {value:8}" for key, value in found[name].items()), flush=True)
    if given.out:
        machine = {"processor": platform.machine(), "python": platform.python_version(), "cage": list(available())}
        given.out.write_text(json.dumps({**machine, "repeats": given.repeats, "ms": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
