import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_rel

from isentropic.reporting.analysis.bootstrap import intervals
from isentropic.reporting.analysis.groups import Group
from isentropic.reporting.analysis.scores import Score
from isentropic.reporting.analysis.significance import compare, comparisons, holm

LOW, HIGH = [0.40, 0.42, 0.44, 0.41, 0.43], [0.60, 0.63, 0.61, 0.65, 0.62]


def score(label, values, seeds=None, metric="eval/avg@8"):
    values = np.array(values)
    seeds = list(range(len(values))) if seeds is None else seeds
    return Score(Group(label, {}, []), metric, seeds, values, intervals(values[:, None])[0])


def verdict(ours, theirs, count=1, **settings):
    (one,) = holm([compare(score("a", ours, **settings), score("b", theirs))], count)
    return one.verdict


def test_five_seeds_that_stand_apart_are_a_claim():
    assert verdict(HIGH, LOW) == "higher" and verdict(LOW, HIGH) == "lower"


def test_fewer_seeds_suggest_and_two_say_nothing():
    assert verdict(HIGH[:4], LOW[:4]) == verdict(HIGH[:3], LOW[:3]) == "suggests higher"
    assert verdict(HIGH[:2], LOW[:2]) == verdict(HIGH[:1], LOW[:1]) == "too few"


def test_an_interval_that_holds_zero_leaves_it_open():
    assert verdict([0.4, 0.6, 0.5, 0.7, 0.3], [0.5, 0.5, 0.6, 0.4, 0.5]) == "open"


def test_among_many_comparisons_a_small_difference_is_only_suggested():
    near = [0.42, 0.45, 0.45, 0.42, 0.46]
    assert verdict(near, LOW) == "higher" and verdict(near, LOW, count=50) == "suggests higher"


def test_holm_takes_the_least_chance_times_all_and_never_falls():
    noise = np.array([1, 2, 1, 2, 1]) * 0.01
    made = [compare(score(str(shift), np.array(LOW) + shift * noise), score("b", LOW)) for shift in (1, 3, 2)]
    made += [compare(score("far", HIGH), score("b", LOW)), compare(score("like", LOW[::-1]), score("b", LOW))]
    raw = sorted(one.p for one in made)
    found = sorted(one.p for one in holm(made, 5))
    by_hand = [min(1, max((5 - i) * raw[i] for i in range(last + 1))) for last in range(5)]
    assert found == pytest.approx(by_hand)


def test_equal_seeds_are_paired_and_others_are_not():
    together, apart = (
        compare(score("a", HIGH), score("b", LOW)),
        compare(score("a", HIGH, [5, 6, 7, 8, 9]), score("b", LOW)),
    )
    assert together.paired and together.p == pytest.approx(ttest_rel(HIGH, LOW).pvalue)
    assert not apart.paired and apart.p == pytest.approx(ttest_ind(HIGH, LOW, equal_var=False).pvalue)
    assert together.difference.point == pytest.approx(apart.difference.point)


def test_pairs_are_matched_by_seed_and_not_by_place():
    turned, straight = score("a", HIGH[::-1], [4, 3, 2, 1, 0]), score("a", HIGH)
    found, expected = (compare(ours, score("b", LOW)).difference for ours in (turned, straight))
    assert [*found] == pytest.approx([*expected], abs=0.01) and found.point == pytest.approx(expected.point)
    assert compare(turned, score("b", LOW)).p == pytest.approx(compare(straight, score("b", LOW)).p)


def test_seeds_without_spread_prove_nothing():
    assert compare(score("a", [0.6] * 5), score("b", [0.4] * 5)).p == 1


def test_few_groups_are_compared_with_each_other_and_many_with_the_reference():
    few = [score(name, LOW) for name in "abc"]
    assert [(one.ours.label, one.theirs.label) for one in comparisons(few, few[1].group, 2)] == [
        ("a", "b"),
        ("c", "b"),
        ("c", "a"),
    ]
    many = [score(name, LOW) for name in "abcdefgh"]
    found = comparisons(many, many[2].group, 7)
    assert [one.ours.label for one in found] == list("abdefgh") and {one.theirs.label for one in found} == {"c"}


def test_equals_are_seldom_told_apart():
    """Of sixty sets of eight equal groups of five seeds, about three in sixty may yield a claim."""
    draw = np.random.default_rng(0)
    wrong = 0
    for _ in range(60):
        rows = [score(name, draw.normal(0.5, 0.05, 5)) for name in "abcdefgh"]
        wrong += any(one.verdict in ("higher", "lower") for one in comparisons(rows, rows[0].group, 7))
    assert wrong <= 6
