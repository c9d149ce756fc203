import pytest

from isentropic.rollout.sampling import Asked
from isentropic.rollout.sampling.pass_rate import PassRate


def seen(problems, rates):
    return [Asked(i, i, problems[i].id, rate) for i, rate in enumerate(rates)]


def test_problems_near_a_half_come_more_often(problems):
    made = PassRate(unseen=0.5, floor=0.05, forget=1.0)
    made.observe(seen(problems, [i % 2 / 2 for i in range(100)]), 100, 100)  # never or half
    firsts = [made.order(problems, position=10 * s, size=10, seed=0) for s in range(40)]
    asked = [order(turn) for order in firsts for turn in range(10)]
    assert sum(place % 2 for place in asked) > 0.8 * len(asked) and any(place % 2 == 0 for place in asked)
    assert all(len({order(turn) for turn in range(100)}) == 100 for order in firsts)  # none twice before all came
    assert [firsts[0](t) for t in range(10)] != [firsts[1](t) for t in range(10)]


def test_rates_are_remembered_by_content_and_fade(problems):
    made = PassRate(unseen=0.5, floor=0.05, forget=0.5)
    made.observe(seen(problems, [1.0]), 1, 1)
    made.observe(seen(problems, [0.0]), 1, 1)
    assert made.state_dict() == {"rates": {problems[0].id: 0.5}}
    other = PassRate(unseen=0.5, floor=0.05, forget=0.5)
    other.load_state_dict(made.state_dict())
    assert [other.order(problems, 3, 1, 0)(t) for t in range(9)] == [made.order(problems, 3, 1, 0)(t) for t in range(9)]
    with pytest.raises(ValueError, match=r"remembers \['queue'\] and PassRate \['rates'\]"):
        other.load_state_dict({"queue": []})


@pytest.mark.parametrize("settings", [{"unseen": 2.0}, {"floor": 0.0}, {"forget": 0.0}, {"forget": 1.5}])
def test_shares_that_are_none_are_refused(settings):
    with pytest.raises(ValueError, match=r"rollout\.sampling\."):
        PassRate(**({"unseen": 0.5, "floor": 0.05, "forget": 0.5} | settings))
