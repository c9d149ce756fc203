import os

from isentropic.reporting.parallel import spread


def where(number):
    return number * number, os.getpid()


def test_results_come_in_the_order_of_the_items():
    found = spread(where, range(100), chunk=10)
    assert [square for square, _ in found] == [n * n for n in range(100)]


def test_few_items_stay_in_this_process():
    assert {process for _, process in spread(where, range(10), chunk=10)} == {os.getpid()}
    assert spread(where, [], chunk=1) == []
