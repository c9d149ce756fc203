"""Two errors of a mean over problems, which answer two questions; neither is sqrt(p(1-p) / answers)."""

import math

from isentropic.evaluation import Counts, PerProblem


def over_problems(scores: PerProblem) -> float | None:
    """Another exam of this kind: their standard deviation over the root of their number. None for a single problem."""
    if len(scores) < 2:
        return None
    return float(scores.double().std() / math.sqrt(len(scores)))


def given_problems(right: Counts, asked: Counts) -> float | None:
    """This exam, answered again: sqrt(sum over problems of p(1-p) / (n-1)) / P. None where a problem has one answer."""
    if asked.min() < 2:
        return None
    share = right.double() / asked
    return float((share * (1 - share) / (asked - 1)).sum().sqrt() / len(share))
