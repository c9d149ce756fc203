"""Are two subjects different on the same problems? Differences, by problem, of their shares of right answers.

A difference is claimed (higher, lower) if its 95 % bootstrap interval over problems excludes 0 and the test that draws
signs stays under 5 % after Holm's correction for all sets; if the test fails it is only suggested.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch

from isentropic.evaluation import interval
from isentropic.evaluation.errors import over_problems
from isentropic.evaluation.scores import RESAMPLES
from isentropic.evaluation.sets import Sheet
from isentropic.reporting.analysis.estimate import holm
from isentropic.reporting.analysis.significance import CHANCE

EXACT = 2**15  # patterns of signs, from which on they are drawn
DRAWN = 20_000
FOUND = 2.8  # standard errors of a difference that 5 % on both sides find four times in five: 1.96 + 0.84
SLACK = 1e-9  # of a sum, that rounding may take


@dataclass(frozen=True)
class Difference:
    """Of one set, ours minus theirs. `low` and `high` are None for one problem."""

    set: str
    problems: int  # that both were asked
    differing: int  # problems whose shares are not equal
    ours: float
    theirs: float
    mean: float  # of the differences per problem
    low: float | None
    high: float | None
    test: str
    p: float  # of the test alone
    corrected: float  # for all sets
    smallest: float | None  # difference that four such comparisons in five would find; None where all are the same
    verdict: str  # higher, lower, suggests higher, suggests lower, open, one problem


def differences(ours: Sequence[Sheet], theirs: Sequence[Sheet]) -> list[Difference]:
    """Set by set, in one order of sets and problems. Corrected for the number of sets."""
    tests = [chance(mine, other) for mine, other in zip(ours, theirs, strict=True)]
    chances = holm(np.array([p for _, p in tests]), len(tests)).tolist()
    return [
        difference(mine, other, test, p, sure)
        for mine, other, (test, p), sure in zip(ours, theirs, tests, chances, strict=True)
    ]


def difference(ours: Sheet, theirs: Sheet, test: str, p: float, sure: float) -> Difference:
    """Of two subjects on a set: mean, 95 % interval over problems, p as given, and the least that would be found."""
    values = by_problem(ours, theirs)
    several = len(values) > 1
    low, high = map(float, interval([values], RESAMPLES))
    error = over_problems(values)
    point = float(values.mean())
    return Difference(
        set=ours.set,
        problems=len(values),
        differing=int((values != 0).sum()),
        ours=float((ours.right.double() / ours.k).mean()),
        theirs=float((theirs.right.double() / theirs.k).mean()),
        mean=point,
        low=low if several else None,
        high=high if several else None,
        test=test,
        p=p,
        corrected=sure,
        smallest=None if error is None or error < SLACK else FOUND * error,
        verdict=verdict(point, low, high, sure) if several else "one problem",
    )


def by_problem(ours: Sheet, theirs: Sheet) -> torch.Tensor:
    """Share of right answers, ours less theirs [problems], from whole steps of one over both numbers of answers.

    So equal shares differ by nothing at all.
    """
    steps = ours.right * theirs.k - theirs.right * ours.k
    return steps.double() / (ours.k * theirs.k)


def chance(ours: Sheet, theirs: Sheet) -> tuple[str, float]:
    """The test and its p, both sides."""
    values = by_problem(ours, theirs)
    if ours.k == theirs.k == 1:
        return "McNemar, exact", mcnemar(int((values > 0).sum()), int((values < 0).sum()))
    patterns = 2 ** int((values != 0).sum())
    name = f"signs, all {patterns} patterns" if patterns < EXACT else f"signs, {DRAWN} drawn patterns"
    return name, sign_flip(values.tolist())


def sign_flip(values: Sequence[float]) -> float:
    """How often signs by chance take the sum of paired differences as far from 0 as it is, or farther. Fisher 1935

    Over all patterns of the differences that are not 0 while these are fewer than 2^15, else over 20,000 drawn by a
    seed, of which the pattern that was found is one more. 1 where nothing differs.
    """
    known = np.array([value for value in values if value != 0])
    if not len(known):
        return 1.0
    far = abs(known.sum()) - SLACK * np.abs(known).sum()
    if 2 ** len(known) < EXACT:
        signs = np.array(list(product((1, -1), repeat=len(known))))
        return float((np.abs(signs @ known) >= far).mean())
    draw = np.random.default_rng(0)
    sums = [np.abs(draw.choice((-1, 1), size=(part, len(known))) @ known) for part in [1_000] * (DRAWN // 1_000)]
    return float((1 + (np.concatenate(sums) >= far).sum()) / (1 + DRAWN))


def mcnemar(gained: int, lost: int) -> float:
    """Exact, both sides: of the problems that one alone solves, as one-sided or more by a fair coin. McNemar 1947"""
    count = gained + lost
    tail = sum(math.comb(count, k) for k in range(min(gained, lost) + 1))
    return min(1.0, 2 * tail / 2**count)


def verdict(point: float, low: float, high: float, p: float) -> str:
    """open, higher, lower, or suggests higher or lower; `p` is after Holm's correction."""
    if low <= 0 <= high:
        return "open"
    way = "higher" if point > 0 else "lower"
    return way if p <= CHANCE else f"suggests {way}"
