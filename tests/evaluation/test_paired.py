from itertools import product
from math import comb

import pytest
from fixtures.evaluations import flags, kept
from hypothesis import given
from hypothesis import strategies as st

from isentropic.evaluation.paired import DRAWN, differences, mcnemar, sign_flip, verdict
from isentropic.evaluation.sets import sheets


def of(**right):
    n = right.pop("n", 4)
    return sheets(*kept({name: flags(one, n) for name, one in right.items()}))


@pytest.mark.golden
def test_signs_of_four_differences_have_sixteen_patterns():
    assert sign_flip([0.5, 0.5, 0.5, 0, -0.25]) == 0.25
    found = differences(of(a=[2, 3, 4, 1, 0]), of(a=[0, 1, 2, 1, 1]))[0]
    assert (found.mean, found.p, found.test) == (0.25, 0.25, "signs, all 16 patterns")
    assert (found.problems, found.differing) == (5, 4)


@given(st.lists(st.sampled_from([-0.75, -0.5, -0.25, 0, 0.25, 0.5]), max_size=7))
def test_exact_chances_are_those_of_every_pattern(values):
    sums = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in product((1, -1), repeat=len(values))
    ]
    truth = sum(one >= abs(sum(values)) - 1e-12 for one in sums) / len(sums)
    assert sign_flip(values) == pytest.approx(truth)


def test_of_many_patterns_some_are_drawn_the_same_every_time():
    likely = sign_flip([0.25] * 12 + [-0.25] * 8)
    assert likely == sign_flip([0.25] * 12 + [-0.25] * 8)
    exact = 2 * sum(comb(20, k) for k in range(9)) / 2**20
    assert likely == pytest.approx(exact, abs=4 * (exact * (1 - exact) / DRAWN) ** 0.5)
    assert sign_flip([0.5] * 40) == 1 / (1 + DRAWN)  # never 0


@given(st.integers(0, 8), st.integers(0, 5))
def test_with_one_answer_each_the_exact_test_is_of_mcnemar_and_agrees_with_signs(gained, lost):
    assert mcnemar(gained, lost) == pytest.approx(sign_flip([1.0] * gained + [-1.0] * lost))
    n1 = differences(of(a=[1] * gained + [0] * lost + [1], n=1), of(a=[0] * gained + [1] * lost + [1], n=1))[0]
    assert n1.test == "McNemar, exact" and n1.p == mcnemar(gained, lost)


@pytest.mark.degenerate
def test_equal_subjects_have_a_chance_of_one_and_what_could_be_found_is_unknown():
    found = differences(of(a=[1, 2, 3]), of(a=[1, 2, 3]))[0]
    assert (found.p, found.mean, found.low, found.high, found.smallest) == (1, 0, 0, 0, None)
    assert found.verdict == "open"


@pytest.mark.degenerate
def test_one_problem_has_no_interval_and_nothing_is_claimed():
    found = differences(of(a=[4]), of(a=[0]))[0]
    assert (found.low, found.high, found.smallest, found.verdict) == (None, None, None, "one problem")


def test_subjects_with_other_numbers_of_answers_compare_by_share():
    ours, theirs = of(a=[1, 2]), sheets(*kept({"a": flags([2, 4], 8)}))
    assert differences(ours, theirs)[0].differing == 0


def test_sets_are_corrected_for_their_number():
    ours, theirs = of(a=[4] * 8, b=[1, 2]), of(a=[0] * 8, b=[1, 2])
    a, b = differences(ours, theirs)
    assert a.p == pytest.approx(2 / 2**8) and a.corrected == pytest.approx(4 / 2**8) and b.corrected == 1
    assert a.verdict == "higher" and differences(theirs, ours)[0].verdict == "lower"


def test_the_smallest_difference_that_would_be_found_is_2_8_standard_errors():
    found = differences(of(a=[4, 0, 2, 2]), of(a=[0, 0, 2, 2]))[0]
    assert found.smallest == pytest.approx(2.8 * 0.5 / 2)  # sd of (1, 0, 0, 0) is a half


@pytest.mark.parametrize(
    ("ends", "p", "said"),
    [((0.1, 0.3), 0.01, "higher"), ((0.1, 0.3), 0.06, "suggests higher"), ((-0.1, 0.3), 0.01, "open")],
)
def test_a_claim_needs_interval_and_test(ends, p, said):
    assert verdict(0.2, *ends, p) == said
