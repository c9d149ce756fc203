"""avg@k of each set, from the kept answers."""

import json
from collections import defaultdict
from pathlib import Path

from isentropic.evaluation.answers import read_answers, read_problems
from isentropic.runs import files


def write_scores(folder: Path) -> dict[str, float]:
    """scores.json: of each set the mean share of right answers. Raises ValueError where answers are missing."""
    right: dict[tuple[str, str], list[bool]] = {(one.set, one.problem): [] for one in read_problems(folder)}
    for one in read_answers(folder):
        right[one.set, one.problem].append(one.right)
    sets: dict[str, list[float]] = defaultdict(list)
    counts: dict[str, int] = {}
    for (name, problem), verdicts in right.items():
        if not verdicts:
            raise ValueError(f"problem {problem} of {name} has no answer in {folder}; the same command goes on with it")
        sets[name].append(sum(verdicts) / len(verdicts))
        counts[name] = len(verdicts)
    scores = {f"{name}/avg@{counts[name]}": sum(shares) / len(shares) for name, shares in sets.items()}
    files.write_whole(folder / files.SCORES, json.dumps(scores, indent=2) + "\n")
    return scores
