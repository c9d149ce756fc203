from collections import Counter
from fractions import Fraction
from itertools import combinations

import pytest
from fixtures.evaluations import answered, asked
from hypothesis import given
from hypothesis import strategies as st

from isentropic.evaluation.maj_at_k import RIGHT, class_of, majority

CLASSES = st.lists(st.sampled_from([RIGHT, ("text", "a"), ("text", "b"), None]), min_size=1, max_size=6)


def by_enumeration(classes, k):
    scores = []
    for chosen in combinations(classes, k):
        votes = Counter(one for one in chosen if one is not None)
        leading = [one for one, count in votes.items() if count == max(votes.values())]
        scores.append(Fraction(RIGHT in leading, max(1, len(leading))))
    return float(sum(scores) / len(scores))


@given(CLASSES, st.data())
def test_it_is_the_expectation_over_all_subsets(classes, data):
    k = data.draw(st.integers(1, len(classes)))
    assert majority(classes, k) == pytest.approx(by_enumeration(classes, k))


@given(CLASSES, st.randoms())
def test_the_order_of_completions_does_not_matter(classes, random):
    mixed = random.sample(classes, len(classes))
    assert majority(mixed, len(classes)) == pytest.approx(majority(classes, len(classes)))


@pytest.mark.identity
@given(CLASSES)
def test_at_one_it_is_the_average(classes):
    assert majority(classes, 1) == pytest.approx(classes.count(RIGHT) / len(classes))


def test_of_more_subsets_than_1000_so_many_are_drawn_the_same_every_time():
    classes = [RIGHT] * 12 + [("text", "a")] * 8
    likely = [majority(classes, k) for k in (1, 5, 9, 20)]
    assert likely[0] == pytest.approx(0.6) and likely[-1] == 1  # few enough to count
    # hypergeometric: 3 or more right of 5 that are drawn of 20, 12 of them right
    assert likely[1] == pytest.approx(0.7038, abs=0.05)
    assert likely == [majority(classes, k) for k in (1, 5, 9, 20)]


def test_no_answer_never_wins_and_ties_share():
    assert majority([None, None, None, RIGHT], 4) == 1
    assert majority([None, None], 2) == 0
    assert majority([RIGHT, ("text", "a"), ("text", "b")], 3) == pytest.approx(1 / 3)


@pytest.mark.parametrize("k", [0, 5])
def test_more_votes_than_completions_are_refused(k):
    with pytest.raises(ValueError, match=f"maj@{k} needs k from 1 to 4"):
        majority([RIGHT] * 4, k)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1/2", "0.50", True),
        (r"\frac{3}{4}", "0.75", True),
        (" 1,000 ", "1000.0", True),
        (r"\dfrac{x}{2}", r"\frac{x}{2}", True),
        ("2 m", "2 kg", False),
        ("10_2", "10", False),
        ("7", "8", False),
        ("x" * 9_000, "x" * 9_001, False),
    ],
)
def test_wrong_answers_are_the_same_by_number_or_spelling(one, other, same):
    problem = asked("set", 0)
    assert (class_of(answered(problem, 0, one)) == class_of(answered(problem, 1, other))) is same


def test_right_answers_are_one_class_and_blank_ones_none():
    problem = asked("set", 0)
    assert class_of(answered(problem, 0, "1")) == RIGHT
    assert class_of(answered(problem, 0, None)) is None and class_of(answered(problem, 0, "  ")) is None
