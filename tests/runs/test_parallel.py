import os

import pytest

from isentropic.runs.parallel import spread


def where(number):
    return number * number, os.getpid()


def test_results_come_in_the_order_of_the_items():
    found = spread(where, range(100), chunk=10)
    assert [square for square, _ in found] == [n * n for n in range(100)]


def test_few_items_stay_in_this_process():
    assert {process for _, process in spread(where, range(10), chunk=10)} == {os.getpid()}
    assert spread(where, [], chunk=1) == []


def test_work_and_items_are_inherited_whatever_they_are():
    items = [lambda n=n: n for n in range(4)]
    assert spread(lambda item: item() + 1, items, chunk=1) == [1, 2, 3, 4]


def test_work_may_spread_its_own_and_errors_come_through():
    assert spread(lambda n: sum(spread(lambda m: n * m, range(3), chunk=1)), range(4), chunk=1) == [0, 3, 6, 9]
    with pytest.raises(ZeroDivisionError):
        spread(lambda n: 1 / n, range(4), chunk=1)
    assert spread(where, range(2), chunk=1)[1][0] == 1
