import sys

from isentropic.rollout.sampling.shuffled import Shuffled, place


def test_every_problem_of_a_set_comes_once_an_epoch_in_another_order():
    epochs = [[place(i, 10, 0) for i in range(10 * e, 10 * e + 10)] for e in range(3)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert [place(i, sys.maxsize, 0) for i in range(5)] == list(range(5))
    assert [place(i, 10, 1) for i in range(10)] != epochs[0]


def test_a_rollout_goes_on_where_the_last_ended(problems):
    order = Shuffled().order(problems[:10], position=7, size=4, seed=0)
    assert [order(turn) for turn in range(8)] == [place(i, 10, 0) for i in range(7, 15)]
