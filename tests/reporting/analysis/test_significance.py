from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_rel

from isentropic.reporting.analysis.estimate import intervals
from isentropic.reporting.analysis.groups import Group
from isentropic.reporting.analysis.scores import Score
from isentropic.reporting.analysis.significance import compare, comparisons

LOW, HIGH = [0.40, 0.42, 0.44, 0.41, 0.43], [0.60, 0.63, 0.61, 0.65, 0.62]
PAIR = [("b", LOW), ("a", HIGH)]


def score(label, values, seeds=None, metric="eval/avg@8"):
    values = np.array(values)
    seeds = list(range(len(values))) if seeds is None else seeds
    return Score(Group(label, {}, []), metric, seeds, values, intervals(values[:, None])[0])


def verdict(ours, theirs, count=1, primary=None):
    rows = [score("b", theirs), score("a", ours)]
    return comparisons(rows, rows[0].group, count, primary)[0].verdict


def test_pairs_that_stand_apart_are_a_claim():
    assert verdict(HIGH, LOW) == "higher" and verdict(LOW, HIGH) == "lower"


def test_fewer_seeds_suggest_and_two_say_nothing():
    assert verdict(HIGH[:4], LOW[:4]) == verdict(HIGH[:3], LOW[:3]) == "suggests higher"
    assert verdict(HIGH[:2], LOW[:2]) == verdict(HIGH[:1], LOW[:1]) == "too few"


def test_three_seeds_apart_are_not_enough_where_they_lie_wide():
    assert verdict([0.526, 0.583, 0.500], [0.503, 0.497, 0.491]) == "open"


def test_an_interval_that_holds_zero_leaves_it_open():
    assert verdict([0.4, 0.6, 0.5, 0.7, 0.3], [0.5, 0.5, 0.6, 0.4, 0.5]) == "open"


def test_among_many_comparisons_a_small_difference_is_suggested_and_never_at_a_chance_of_one():
    near = [0.42, 0.45, 0.45, 0.42, 0.46]
    p = compare(score("a", near), score("b", LOW)).p
    assert verdict(near, LOW) == "higher" and verdict(near, LOW, count=int(0.9 / p)) == "suggests higher"
    assert verdict(near, LOW, count=int(1.1 / p)) == "open"


def test_with_a_primary_metric_others_suggest_at_most_and_cost_nothing():
    groups = {name: Group(name, {}, []) for name, _ in PAIR}
    metrics = ("eval/avg@8", "eval/pass@16")
    rows = [replace(score("", v, metric=m), group=groups[name]) for m in metrics for name, v in PAIR]
    first, other = comparisons(rows, rows[0].group, 1, "eval/avg@8")
    assert (first.verdict, first.among, first.corrected) == ("higher", 1, first.p)
    assert other.verdict == "suggests higher" and np.isnan(other.corrected)
    both = comparisons(rows, rows[0].group, 1)
    assert [one.among for one in both] == [2, 2] and both[0].corrected == pytest.approx(2 * both[0].p)


def test_all_metrics_and_groups_are_corrected_together():
    groups = [Group(name, {}, []) for name in "abcdefgh"]
    rows = [replace(score("", LOW, metric=m), group=one) for m in "xyz" for one in groups]
    assert {one.among for one in comparisons(rows, rows[0].group, 7)} == {21}


def test_what_would_have_been_found_grows_with_the_comparisons():
    rows = [score(name, values) for name, values in PAIR]
    one, many = (comparisons(rows, rows[0].group, n)[0] for n in (1, 12))
    assert 0 < one.findable < many.findable and one.difference.point > one.findable


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
    assert [*found] == pytest.approx([*expected]) and found.point == pytest.approx(expected.point)
    assert compare(turned, score("b", LOW)).p == pytest.approx(compare(straight, score("b", LOW)).p)


def test_seeds_without_spread_prove_nothing():
    found = compare(score("a", [0.6] * 5), score("b", [0.4] * 5))
    assert found.verdict == "open" and np.isnan(found.p) and np.isnan(found.difference.low)


def test_few_groups_are_compared_with_each_other_and_many_with_the_reference():
    few = [score(name, LOW) for name in "abc"]
    assert [(one.ours.label, one.theirs.label) for one in comparisons(few, few[1].group, 2)] == [
        ("a", "b"),
        ("c", "b"),
        ("c", "a"),
    ]
    alone = comparisons(few, few[1].group, 2, alone=True)
    assert [(one.ours.label, one.theirs.label) for one in alone] == [("a", "b"), ("c", "b")]
    many = [score(name, LOW) for name in "abcdefgh"]
    found = comparisons(many, many[2].group, 7)
    assert [one.ours.label for one in found] == list("abdefgh") and {one.theirs.label for one in found} == {"c"}


def test_equals_are_seldom_told_apart():
    """Of sixty reports of eight equal groups of five seeds by three scores, about three may claim anything."""
    draw, groups = np.random.default_rng(0), [Group(name, {}, []) for name in "abcdefgh"]
    wrong = 0
    for _ in range(60):
        rows = [replace(score("", draw.normal(0.5, 0.05, 5), metric=m), group=one) for m in "xyz" for one in groups]
        wrong += any(one.verdict in ("higher", "lower") for one in comparisons(rows, rows[0].group, 7))
    assert wrong <= 6
