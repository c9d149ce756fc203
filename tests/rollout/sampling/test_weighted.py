from collections import Counter
from sys import maxsize

import pytest

from isentropic.rollout.sampling.weighted import Weighted
from isentropic.task import Problem
from isentropic.task.endless import Endless


def test_each_comes_its_share_of_times(problems):
    order = Weighted(column="weight").order(problems, position=0, size=10, seed=0)
    times = Counter(order(turn) for turn in range(600))
    heavy = [times[i] for i in range(0, 100, 4)]
    light = [times[i] for i in range(100) if i % 4]
    assert sum(heavy) == 300 and min(heavy) >= 6 and max(light) <= 12  # 75 of 150 weights; 12 and 4 on average
    first, second = ([order(turn) for turn in range(s, s + 100)] for s in (0, 100))
    assert first != second
    later = Weighted(column="weight").order(problems, position=100, size=10, seed=0)
    assert [later(turn) for turn in range(100)] == second


def test_weights_that_are_none_are_refused(problems):
    for column, message in (("kind", "kind is 'sum' for the problem"), ("wight", "wight is None for the problem")):
        with pytest.raises(ValueError, match=rf"rollout\.sampling\.column={message} '0\+1=', where a number must be"):
            Weighted(column=column).check(problems)
    Weighted(column="weight").check(problems)
    for value in (float("nan"), float("inf"), True, 10**400):
        odd = [*problems, Problem("2+2=", 4, columns={"weight": value})]
        with pytest.raises(ValueError, match=r"for the problem '2\+2=', where a number must be"):
            Weighted(column="weight").check(odd)
    endless = Endless(lambda i: problems[0])
    assert len(endless) == maxsize
    with pytest.raises(ValueError, match=r"this task makes them without end; .* as in rollout\.problems=1000"):
        Weighted(column="weight").check(endless)
