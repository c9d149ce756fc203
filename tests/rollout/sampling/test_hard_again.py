import pytest

from isentropic.rollout.sampling import Asked
from isentropic.rollout.sampling.hard_again import HardAgain
from isentropic.rollout.sampling.shuffled import place


def rollout(made, problems, position, hard, size=8, tries=1):
    """Places asked in a rollout in which the problems at some places are hard."""
    order = made.order(problems, position, size, seed=0)
    asked = [order(turn) for turn in range(size * tries)]
    made.observe([Asked(t, p, problems[p].id, float(p not in hard)) for t, p in enumerate(asked)], size * tries, size)
    return asked


def test_what_was_not_solved_comes_again_beside_the_shuffled_order(problems):
    made = HardAgain(share=0.25, below=0.5, times=2)
    shuffled = [place(i, 100, 0) for i in range(100)]
    first = rollout(made, problems, 0, hard=set(shuffled[:3]))
    assert first == shuffled[:8]
    second = rollout(made, problems, 8, hard={shuffled[0]})  # two of eight again, the oldest first
    assert second == [*shuffled[:2], *shuffled[8:14]]
    third = rollout(made, problems, 16, hard={shuffled[0]})
    assert third == [shuffled[2], shuffled[0], *shuffled[14:20]]
    assert rollout(made, problems, 24, hard=set()) == shuffled[20:28]  # twice in a row is enough


def test_rounds_of_asking_go_on_in_the_shuffled_order(problems):
    made = HardAgain(share=0.5, below=0.5, times=2)
    shuffled = [place(i, 100, 0) for i in range(100)]
    rollout(made, problems, 0, hard={shuffled[1]})
    assert rollout(made, problems, 8, hard=set(), tries=2) == [shuffled[1], *shuffled[8:23]]
    assert rollout(made, problems, 24, hard=set()) == shuffled[23:31]


def test_other_problems_than_those_of_the_checkpoint_are_refused(problems):
    made = HardAgain(share=0.5, below=0.5, times=2)
    rollout(made, problems, 0, hard={place(0, 100, 0)})
    with pytest.raises(ValueError, match=r"the problems are not those of the checkpoint"):
        made.order(problems[::-1], 8, 8, 0)


@pytest.mark.parametrize("settings", [{"share": 0.0}, {"below": 0.0}, {"below": 1.5}, {"times": 0}])
def test_settings_that_ask_nothing_again_are_refused(settings):
    with pytest.raises(ValueError, match=r"rollout\.sampling\."):
        HardAgain(**({"share": 0.25, "below": 0.25, "times": 3} | settings))
