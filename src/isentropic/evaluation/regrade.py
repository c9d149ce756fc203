"""Kept answers are judged anew, without the model that wrote them: `isentropic eval regrade=FOLDER grader=NAME`."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from isentropic.evaluation.agreement import Agreement, write
from isentropic.evaluation.answers import ANSWERS, Answered, Asked, read_answers, read_problems
from isentropic.evaluation.grader import Grader
from isentropic.evaluation.grading import graded
from isentropic.evaluation.scores import average
from isentropic.runs.files import write_whole
from isentropic.runs.lock import locked

SetScores = dict[str, dict[str, Any]]


def regrade(folder: Path, graders: Sequence[Grader]) -> tuple[dict[str, SetScores], list[Agreement]]:
    """Adds verdicts to answers.jsonl beside those that are there, and writes scores.GRADER.json for each grader.

    scores.json stays, and so does who decides. Returns these scores by grader, and how far all graders agree. Raises
    ValueError for a folder without answers, or one to which an evaluation still adds.
    """
    problems = read_problems(folder)
    with locked(folder):
        before = read_answers(folder)
        if not before:
            raise ValueError(f"{folder} holds no answers yet; there is nothing to judge")
        after, names = graded(before, problems, graders)
        text = "".join(json.dumps(asdict(one)) + "\n" for one in after)
        write_whole(folder / ANSWERS, text)
        scores = {name: scores_of(name, after, problems) for name in names}
        for name, found in scores.items():
            text = json.dumps({"grader": name, "sets": found}, indent=2)
            write_whole(folder / scores_file(name), text + "\n")
        return scores, write(folder, after, problems)


def scores_file(grader: str) -> str:
    """Where this grader's scores stand, beside scores.json."""
    return f"scores.{re.sub(r'[^A-Za-z0-9._-]+', '_', grader).strip('_')}.json"


def scores_of(grader: str, answers: Sequence[Answered], problems: Sequence[Asked]) -> SetScores:
    """By set: avg@k with its errors, as an evaluation has it, each row once, and what became of the answers."""
    by_problem: dict[tuple[str, str], list[Answered]] = {}
    for one in answers:
        by_problem.setdefault((one.set, one.problem), []).append(one)
    sets: SetScores = {}
    for name in dict.fromkeys(one.set for one in answers):
        rows = [found for one in problems if one.set == name and (found := by_problem.get((name, one.problem)))]
        right = torch.tensor([sum(one.verdicts[grader] for one in found) for found in rows])
        statuses = Counter(one.statuses[grader] for found in rows for one in found)
        sets[name] = {
            "problems": len(rows), "answers": sum(map(len, rows)), "statuses": dict(sorted(statuses.items())),
            "avg": average(right, torch.tensor(list(map(len, rows)))),
        }  # fmt: skip
    return sets
