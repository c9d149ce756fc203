"""How long a verdict takes: golds of data sets against themselves and against other spellings, in a judge's process.

python benchmarks/verdicts.py dapo.parquet:reward_model.ground_truth math500.jsonl:answer
"""

import json
import statistics
import time
from argparse import ArgumentParser
from pathlib import Path

from isentropic.task.chats import plain
from isentropic.task.dataset_files import column, from_file
from isentropic.task.equality import grade
from isentropic.task.judge_pool import JudgePool


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("sets", nargs="+", help="FILE:COLUMN of the golds")
    for one in parser.parse_args().sets:
        path, _, name = one.rpartition(":")
        rows = from_file(path, Path(path), "another file")
        golds = [plain(column(row, name, place, path), place) for place, row in rows]
        print(json.dumps({"set": Path(path).name, "golds": len(golds)} | pooled(golds) | alone(golds)))


def pooled(golds: list[str]) -> dict[str, float]:
    """All of them through one judge, as training asks it."""
    judges = JudgePool("isentropic.task.math_judge:judge", workers=1, timeout=5.0, memory=4.0)
    judges([("1", r"\boxed{1}", "", "strict")])
    begun = time.monotonic()
    verdicts = judges([(gold, rf"\boxed{{{gold}}}", "Answer:", "strict") for gold in golds])
    seconds = time.monotonic() - begun
    judges.close()
    return {"own_right": sum(verdict.correct for verdict in verdicts), "seconds": round(seconds, 2)}


def alone(golds: list[str]) -> dict[str, float]:
    """One at a time, not in the gold's own spelling."""
    spent = list[float]()
    for gold in golds:
        begun = time.perf_counter()
        grade(gold, rf"So the answer is \boxed{{\displaystyle {gold}+0}}", "Answer:", "strict")
        spent.append(1_000 * (time.perf_counter() - begun))
    quantiles = statistics.quantiles(spent, n=100)
    return {"median_ms": round(quantiles[49], 3), "p99_ms": round(quantiles[98], 3), "max_ms": round(max(spent), 1)}


if __name__ == "__main__":
    main()
