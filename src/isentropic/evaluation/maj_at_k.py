"""maj@k: how often the answer that most of k completions give is right. arXiv:2203.11171

Completions that are right are one class, as all equal the reference; wrong ones are classes by the number or the
normal spelling of their answer. Two wrong answers that only algebra would find equal stay apart, which can raise the
score and never lower it. What has no answer has no vote. Classes with equally many votes share the point.
"""

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np

from isentropic.evaluation.answers import Answered
from isentropic.task.kinds.literals import number
from isentropic.task.kinds.normal import normal

SUBSETS = 1_000  # drawn where there are more
LONGEST = 500  # characters of an answer that is read as a formula
Class = tuple[str, ...]
RIGHT: Class = ("right",)


def class_of(answer: Answered) -> Class | None:
    """None where there is no answer."""
    if answer.right:
        return RIGHT
    text = (answer.extracted or "").strip()
    if not text:
        return None
    if len(text) > LONGEST:
        return "text", text
    spelled = normal(text)
    found = number(spelled)
    return ("number", str(found.value), str(found.base)) if found and not found.unit.powers else ("text", spelled)


def majority(classes: Sequence[Class | None], k: int) -> float:
    """The expectation over the subsets of k of one problem's completions.

    Over all of them where they are 1,000 or fewer, else over 1,000 that are drawn by a seed. Raises ValueError for k
    below 1 or above the number of completions.
    """
    if not 1 <= k <= len(classes):
        raise ValueError(f"maj@{k} needs k from 1 to {len(classes)}, the number of completions of a problem")
    votes = one_hot(classes)
    counts = votes[subsets(len(classes), k)].sum(1)  # subsets by classes, of which the first is right
    most = counts.max(1, keepdims=True, initial=0)
    leading = (counts == most) & (most > 0)
    return float((leading[:, 0] / leading.sum(1).clip(min=1)).mean())


def one_hot(classes: Sequence[Class | None]) -> np.ndarray:
    """Completions by classes; what has no answer is a row of zeros."""
    names: dict[Class, int] = {RIGHT: 0}
    for name in classes:
        if name is not None:
            names.setdefault(name, len(names))
    votes = np.zeros((len(classes), len(names)), dtype=np.int32)
    for row, name in enumerate(classes):
        if name is not None:
            votes[row, names[name]] = 1
    return votes


def subsets(count: int, k: int) -> np.ndarray:
    """Places of k answers of `count`, [subsets, k]: all of them, or SUBSETS that are drawn."""
    if comb(count, k) <= SUBSETS:
        return np.array(list(combinations(range(count), k)))
    draw = np.random.default_rng(0)
    return draw.permuted(np.tile(np.arange(count), (SUBSETS, 1)), axis=1)[:, :k]
