"""What an evaluation found, from its kept answers: scores of each set with both their errors, and what explains them.

docs/evaluation_scores.md has the formulas and says what each error is of.
"""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from isentropic.evaluation import Counts, PerProblem, Score, interval
from isentropic.evaluation.answers import Answered, Asked
from isentropic.evaluation.avg_at_k import AvgAtK
from isentropic.evaluation.errors import given_problems, over_problems
from isentropic.evaluation.maj_at_k import class_of, majority
from isentropic.evaluation.pass_at_k import PassAtK
from isentropic.evaluation.sets import Sheet, read, sheets
from isentropic.reward.repetition import repeated
from isentropic.runs import files

RESAMPLES = 2_000  # of the bootstrap over problems
TRUNCATED = 0.05  # share of answers that were cut off, above which a score is one of the length too
GRAM = 4  # words
Found = dict[str, Any]


def scores_of(problems: Sequence[Asked], answers: Sequence[Answered]) -> Found:
    """By set, their mean, and warnings. Raises ValueError for problems without as many answers as others."""
    return of_sheets(sheets(problems, answers))


def write_scores(folder: Path) -> Found:
    """scores.json, from the answers that the folder keeps. Raises ValueError where they are not whole."""
    found = of_sheets(read(folder))
    files.write_whole(folder / files.SCORES, json.dumps(found, indent=1, allow_nan=False) + "\n")
    return found


def of_sheets(found: Sequence[Sheet]) -> Found:
    """For scores.json: by set, the mean over sets, and warnings with the sets that they are of."""
    by_set = {sheet.set: of_set(sheet) for sheet in found}
    said: dict[str, list[str]] = {}
    for name, one in by_set.items():
        for sentence in one["warnings"]:
            said.setdefault(sentence, []).append(name)
    warnings = [f"{', '.join(names)}: {sentence}" for sentence, names in said.items()]
    return {"sets": by_set, "mean": mean_of_sets(by_set), "warnings": warnings}


def of_set(sheet: Sheet) -> Found:
    """avg@k with both errors, curves over k with 95 % intervals over problems, and what explains them."""
    found = {
        "problems": len(sheet.problems),
        "duplicates": len(sheet.problems) - len({one.question for one in sheet.problems}),
        "k": sheet.k,
        "avg": average(sheet.right, sheet.asked),
        "pass": [{"k": k} | told(at(PassAtK, k, sheet)) for k in ks(sheet.k)],
        "maj": votes(sheet),
    } | explained(sheet)
    return found | {"warnings": list(warnings(found))}


def average(right: Counts, asked: Counts) -> Found:
    """avg@k with both its errors, of the answers that each problem has."""
    shares = AvgAtK(1, RESAMPLES).per_problem(right, asked)
    return told(shares) | {"error_given_problems": given_problems(right, asked)}


def ks(n: int) -> list[int]:
    """1, 2, 4, ... and n itself."""
    return sorted({*(2**power for power in range(n.bit_length())), n})


def at(kind: type[PassAtK], k: int, sheet: Sheet) -> PerProblem:
    """Raises ValueError for k above the number of answers."""
    metric: Score = kind(k, RESAMPLES)
    return metric.per_problem(sheet.right, sheet.asked)


def told(scores: PerProblem) -> Found:
    """Their mean, its 95 % interval by bootstrap over problems, and its error over problems; null for one problem."""
    ends = [float(end) for end in interval([scores], RESAMPLES)] if len(scores) > 1 else [None, None]
    return {
        "value": float(scores.double().mean()),
        "low": ends[0],
        "high": ends[1],
        "error_over_problems": over_problems(scores),
    }


def votes(sheet: Sheet) -> list[Found] | None:
    """maj@k for the same k; None where the grader did not say what any wrong answer is."""
    import torch

    wrong = [one for one in sheet.every if one.status == "wrong"]
    if wrong and not any(one.extracted for one in wrong):
        return None
    classes = [[class_of(one) for one in answers] for answers in sheet.answers]
    return [
        {"k": k} | told(torch.tensor([majority(one, k) for one in classes], dtype=torch.float64)) for k in ks(sheet.k)
    ]


def explained(sheet: Sheet) -> Found:
    """Tokens, shares cut off and unparseable, problems always and never right, how alike answers are."""
    every, right = sheet.every, sheet.right
    grams = [[words_of(one.text) for one in answers] for answers in sheet.answers]
    return {
        "tokens": {
            "all": mean(one.tokens for one in every),
            "right": mean(one.tokens for one in every if one.right),
            "wrong": mean(one.tokens for one in every if not one.right),
            "longest": max(one.tokens for one in every),
        },
        "truncated": mean(one.finish == "length" for one in every),
        "unparseable": mean(one.status == "unparseable" for one in every),
        "timeouts": sum(one.status in ("timeout", "crash") for one in every),
        "all_right": int((right == sheet.k).sum()),
        "all_wrong": int((right == 0).sum()),
        "distinct_4_grams": mean(map(distinct, grams)),
        "repeated_text": mean(repeated(one, GRAM) for answers in grams for one in answers),
    }


def words_of(text: str) -> list[int]:
    """Hashes of the words between spaces, to count n-grams by."""
    return [hash(word) for word in text.split()]


def distinct(answers: Sequence[Sequence[int]]) -> float | None:
    """Of all runs of 4 words in the answers to a problem, the share that are different; None without any."""
    grams = [gram for words in answers for gram in zip(*(words[start:] for start in range(GRAM)), strict=False)]
    return len(set(grams)) / len(grams) if grams else None


def mean(values: Iterable[float | None]) -> float | None:
    """Of what is known; None where nothing is."""
    known = [float(one) for one in values if one is not None]
    return sum(known) / len(known) if known else None


def warnings(found: Found) -> Iterable[str]:
    """What a reader of the scores must know, in a sentence each."""
    if found["truncated"] > TRUNCATED:
        yield (
            f"more than {TRUNCATED:.0%} of the answers were cut off, so the score is one of the budget of tokens too;"
            " compare it only at the same budget"
        )
    if found["problems"] == 1:
        yield "one problem has neither an interval nor an error over problems"
    if found["k"] == 1:
        yield "with one answer of each problem the error given these problems is unknown"
    if found["maj"] is None:
        yield "the grader does not say what a wrong answer is, so there is no vote to count"
    if found["duplicates"]:
        yield f"{found['duplicates']} problems stand in the set more than once and count as often"


def mean_of_sets(by_set: dict[str, Found]) -> Found:
    """avg@k, each set weighing the same whatever its size; errors are joined as of independent sets."""
    averages = [one["avg"] for one in by_set.values()]
    return {"sets": len(averages), "value": mean(one["value"] for one in averages)} | {
        error: joined([one[error] for one in averages]) for error in ("error_over_problems", "error_given_problems")
    }


def joined(errors: Sequence[float | None]) -> float | None:
    """None where one is unknown."""
    known = [one for one in errors if one is not None]
    return math.hypot(*known) / len(known) if len(known) == len(errors) else None
