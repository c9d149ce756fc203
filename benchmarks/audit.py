"""What the best constant answer earns in each task of reasoning_gym, by the library's scorers and by ours.

python benchmarks/audit.py --out benchmarks/results/audit.json --table docs/audit.md
"""

import json
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from reasoning_gym.factory import DATASETS

from isentropic.task.audit import NOTABLE, PROBLEMS, Earning, audit
from isentropic.task.reasoning_gym import ReasoningGym

HEAD = f"""# What constants earn

In the tasks of reasoning_gym, and [in our own](#in-our-own-tasks) and [in sets](#in-sets-of-mathematics) below.

The best of some 45 constants (`nan`, `0`, `True`, `[]`, the prompt, golds of the first 20 problems), each given to
{PROBLEMS} training problems, by `python benchmarks/audit.py`. With `task.partial_credit=false`, the default, a repaired
score is 1 or 0; with `true` it is the library's, but for what is no answer at all. [equality.md](equality.md) says what
is repaired. In bold: {NOTABLE} and more, which `isentropic.task.audit` warns of.

| task | default | answer | partial credit | answer | own golds |
| --- | --- | --- | --- | --- | --- |
"""
OPTIONS = {"composite": {"datasets": [{"name": "gcd"}, {"name": "lcm"}, {"name": "simple_equations"}]}}
OTHERS = "\n## In our own tasks"  # and what follows, which audit_sets.py prints
FOOT = "\n`composite` is asked with `gcd`, `lcm` and `simple_equations`, as it needs the names of others.\n"


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    settings = parser.parse_args()
    rows = list[dict[str, Any]]()
    for name in settings.tasks or sorted(DATASETS):
        rows.append(row(name, settings.workers))
        print(json.dumps(rows[-1]), flush=True)
    if settings.out:
        settings.out.write_text(json.dumps(rows, indent=1) + "\n")
    if settings.table:
        _, found, others = settings.table.read_text().partition(OTHERS) if settings.table.is_file() else ("", "", "")
        settings.table.write_text(HEAD + "".join(map(line, rows)) + FOOT + found + others)


def row(name: str, workers: int) -> dict[str, Any]:
    begun = time.monotonic()
    made: dict[str, Any] = {"task": name}
    for partial_credit in (False, True):
        task = ReasoningGym(
            name=name,
            options=OPTIONS.get(name, {}),
            template="{question}",
            marker="",
            held_out=0.1,
            seed=0,
            partial_credit=partial_credit,
            workers=workers,
            timeout=5.0,
            memory=4.0,
        )
        found = audit(task, task.problems("train")[:PROBLEMS])
        task.close()
        made["partial" if partial_credit else "default"] = said(found.best)
        made |= {"unearnable": len(found.unearnable), "unknown": found.unknown}
    return made | {"seconds": round(time.monotonic() - begun, 1)}


def said(best: Earning) -> dict[str, Any]:
    return {"answer": best.answer[:40], "reward": round(best.reward, 3), "correct": round(best.correct, 3)}


def line(row: dict[str, Any]) -> str:
    cells = [f"`{row['task']}`"]
    for kind in ("default", "partial"):
        reward, answer = row[kind]["reward"], row[kind]["answer"].replace("\n", " ").replace("|", "/").replace("`", "'")
        cells += [
            f"**{reward:.3f}**" if reward >= NOTABLE else f"{reward:.3f}",
            f"`{answer}`" if answer.strip() else "",
        ]
    known = PROBLEMS - row["unknown"]
    return "| " + " | ".join([*cells, f"{known - row['unearnable']} of {known}"]) + " |\n"


if __name__ == "__main__":
    main()
