"""What graders make of the golds of published sets, and how long they take to judge kept answers anew.

    python benchmarks/graders.py --data ../shared/data --out benchmarks/results/graders.json

Golds: every gold of every set against itself, by each grader; those that are not right are listed. Regrading:
`regrade` on a folder of 10,000 made answers to problems of these sets, of about 4,000 characters each, two processes
for each grader. Of the 16 answers of a problem some are its gold, some the same value written otherwise, most another
number, and some none; `distinct` counts pairs of a gold and an answer, as equal ones are compared once.
"""

import argparse
import json
import os
import platform
import random
import re
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

from isentropic.config.build import build
from isentropic.config.compose import compose, loader_of
from isentropic.config.entry import CONFIGS
from isentropic.config.graders import graders_of
from isentropic.evaluation.answers import Answered, Asked, add, write_problems
from isentropic.evaluation.grader import Grader
from isentropic.evaluation.regrade import regrade
from isentropic.evaluation.set_checks import repeated, unjudgeable
from isentropic.tools.probe import available

SETS = ("aime24", "aime25", "amc23", "math500", "minerva", "olympiad", "gsm8k")
GRADERS = ("math_verify", "prm800k", "stare", "qwen_math", "boxed_string", "dapo_answer", "integer")
CHILDREN = 16
SAID = "so then the sum of all that is left and we find it again with the same terms on both sides of it"


def problems(data: Path, name: str) -> list[Asked]:
    chosen = [f"task/set@task.test=[{name}]", "task/set@task.train=[]", f"paths.data={data}"]
    cfg = compose(loader_of(CONFIGS), "train", ["task=math", *chosen])
    rows = build(cfg, f"task.test.{name}").read(f"task.test.{name}")
    return [
        Asked(name, blake2b(f"{i} {row.question}".encode(), digest_size=8).hexdigest(), i, row.question, row.answer,
              "", "", 0)
        for i, row in enumerate(rows)
    ]  # fmt: skip


def golds(asked: Sequence[Asked], grader: Grader) -> dict[str, object]:
    begun = time.perf_counter()
    lost = unjudgeable(asked, grader)
    seconds = round(time.perf_counter() - begun, 2)
    listed = [f"row {one.row}: {one.gold}"[:80] for one in lost]
    return {"problems": len(asked), "not_right": len(lost), "seconds": seconds, "listed": listed}


def answers(asked: Sequence[Asked], number: int) -> Iterator[Answered]:
    draw = random.Random(0)
    for place in range(number):
        problem, child = asked[place // CHILDREN % len(asked)], place % CHILDREN
        text = " ".join(draw.choices(SAID.split(), k=draw.randint(300, 1_600)))
        answer = answered(problem.gold, draw)
        text += f" {place}" if answer is None else rf". The answer is \boxed{{{answer}}}, as {place} shows."
        text += f" Answer: {answer}" if answer is not None and draw.random() < 0.5 else ""
        yield Answered(problem.set, problem.problem, child, 0, text, len(text) // 4, "stop", answer, {}, {}, 0.0)


def answered(gold: str, draw: random.Random) -> str | None:
    """The gold, the same otherwise written, the gold with another number in it, or nothing."""
    kind = draw.random()
    if kind < 0.35:
        return gold
    if kind < 0.5:
        return draw.choice([f"${gold}$", rf"\left({gold}\right)", f"x = {gold}", gold.replace(r"\frac", r"\dfrac")])
    if kind < 0.95:
        return re.sub(r"\d+", lambda _: str(draw.randint(0, 999)), gold) if re.search(r"\d", gold) else f"{gold}+1"
    return None


def cpu() -> float:
    """Seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def timed(asked: Sequence[Asked], number: int, name: str) -> dict[str, float | int]:
    folder = Path(tempfile.mkdtemp(prefix="isentropic-graders-"))
    (grader,) = graders_of([name]).values()
    try:
        write_problems(folder, asked)
        made = list(answers(asked, number))
        add(folder, made)
        begun, used = time.perf_counter(), cpu()
        scores, _ = regrade(folder, [grader])
        seconds = time.perf_counter() - begun
        grader.close()
        used = cpu() - used
    finally:
        grader.close()
        shutil.rmtree(folder)
    right = sum(found["statuses"].get("right", 0) for found in scores[name].values())
    golds_of = {one.problem: one.gold for one in asked}
    return {
        "seconds": round(seconds, 1), "cpu_seconds": round(used, 1), "answers": number, "right": right,
        "distinct": len({(golds_of[one.problem], one.extracted) for one in made}),
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--graders", nargs="+", default=GRADERS, choices=GRADERS)
    parser.add_argument("--answers", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    asked = {name: problems(given.data, name) for name in given.sets}
    everything = [one for found in asked.values() for one in found]
    report = {
        "processor": platform.machine(), "python": platform.python_version(), "cage": list(available()),
        "cores": len(os.sched_getaffinity(0)), "load": [round(load, 1) for load in os.getloadavg()],
        "repeated": repeated(everything), "golds": {}, "regrading": {},
    }  # fmt: skip
    for name, grader in graders_of(given.graders).items():
        report["golds"][name] = found = {key: golds(one, grader) for key, one in asked.items()}
        grader.close()
        print(
            f"{name:14}" + "  ".join(f"{key} {one['not_right']}/{one['problems']}" for key, one in found.items()),
            flush=True,
        )
    for name in given.graders:
        report["regrading"][name] = found = timed(everything, given.answers, name)
        print(f"{name:14}" + "  ".join(f"{key} {value}" for key, value in found.items()), flush=True)
    if given.out:
        given.out.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
