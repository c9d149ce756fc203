import json
from dataclasses import replace

import pytest
from fixtures.evaluations import answered, asked, flags, kept
from hypothesis import given, settings
from hypothesis import strategies as st

from isentropic.evaluation.pass_at_k import PassAtK
from isentropic.evaluation.scores import at, scores_of, write_scores
from isentropic.evaluation.sets import sheets

SHARES = st.lists(st.integers(0, 4), min_size=1, max_size=4)


def of(right, n):
    return scores_of(*kept({"a": flags(right, n)}))["sets"]["a"]


def rounded(found):
    return json.loads(json.dumps(found), parse_float=lambda number: round(float(number), 9))


@pytest.mark.golden
def test_the_curve_of_pass_at_k():
    found = of([4], 32)
    assert [one["k"] for one in found["pass"]] == [1, 2, 4, 8, 16, 32]
    truth = [0.125, 0.237903, 0.430617, 0.704505, 0.949388, 1]
    assert [one["value"] for one in found["pass"]] == pytest.approx(truth, abs=1e-6)
    assert of([1], 4)["pass"][-1]["value"] == 1
    assert [one["k"] for one in of([1, 2], 6)["pass"]] == [1, 2, 4, 6]


def test_more_answers_than_there_are_cannot_be_scored():
    with pytest.raises(ValueError, match="pass@5 needs 5 completions of every problem, one has 4"):
        at(PassAtK, 5, sheets(*kept({"a": flags([1], 4)}))[0])


@pytest.mark.identity
@settings(max_examples=20)
@given(SHARES)
def test_one_answer_passes_and_wins_as_often_as_the_average(right):
    found = of(right, 4)
    average = pytest.approx(found["avg"]["value"])
    assert found["pass"][0]["value"] == average and found["maj"][0]["value"] == average
    assert all(a["value"] <= b["value"] + 1e-12 for a, b in zip(found["pass"], found["pass"][1:], strict=False))


@pytest.mark.invariance
@settings(max_examples=20)
@given(SHARES, st.randoms())
def test_the_order_of_answers_does_not_matter(right, random):
    problems, answers = kept({"a": flags(right, 4)})
    children = random.sample(range(4), 4)
    mixed = [replace(one, child=children[one.child]) for one in answers]
    assert rounded(scores_of(problems, random.sample(mixed, len(mixed)))) == rounded(scores_of(problems, answers))


def test_sets_weigh_the_same_in_their_mean_whatever_their_size():
    found = scores_of(*kept({"a": flags([4, 4, 4, 4], 4), "b": flags([0, 4], 4)}))
    assert found["mean"]["value"] == 0.75 and found["mean"]["sets"] == 2
    assert found["mean"]["error_over_problems"] == pytest.approx(0.25)  # of b alone, halved
    assert found["mean"]["error_given_problems"] == 0


def test_what_explains_a_score():
    problem, other = asked("a", 0), asked("a", 1)
    answers = [
        replace(answered(problem, 0, "1"), tokens=10),
        replace(answered(problem, 1, "7"), tokens=30, finish="length"),
        replace(answered(other, 0, None), tokens=50),
        replace(answered(other, 1, "7"), tokens=10, statuses={"math": "timeout"}),
    ]
    found = scores_of([problem, other], answers)["sets"]["a"]
    assert found["tokens"] == {"all": 25, "right": 10, "wrong": 30, "longest": 50}
    assert (found["truncated"], found["unparseable"], found["timeouts"]) == (0.25, 0.25, 1)
    assert (found["all_right"], found["all_wrong"]) == (0, 1)
    assert "more than 5% of the answers were cut off" in found["warnings"][0]


def test_repetition_within_an_answer_and_likeness_between_answers():
    problem = asked("a", 0)
    again = replace(answered(problem, 0, "1"), text="a b c d " * 3)  # 9 runs of four words, 4 of them different
    found = scores_of([problem], [again, replace(again, child=1)])["sets"]["a"]
    assert found["repeated_text"] == pytest.approx(5 / 9) and found["distinct_4_grams"] == pytest.approx(4 / 18)
    short = scores_of([problem], [replace(again, text="a b c")])["sets"]["a"]
    assert short["repeated_text"] == 0 and short["distinct_4_grams"] is None


@pytest.mark.degenerate
def test_one_problem_with_one_answer_has_neither_error_nor_interval_and_says_so():
    found = of([1], 1)
    assert found["avg"] == {
        "value": 1, "low": None, "high": None, "error_over_problems": None, "error_given_problems": None,
    }  # fmt: skip
    assert len(found["warnings"]) == 2 and "neither an interval" in found["warnings"][0]


def test_a_grader_that_names_no_answer_has_no_vote():
    problems, answers = kept({"a": flags([1], 2)})
    found = scores_of(problems, [replace(one, extracted=None) for one in answers])["sets"]["a"]
    assert found["maj"] is None and any("no vote" in one for one in found["warnings"])


def test_scores_are_written_beside_the_answers(tmp_path, an_evaluation):
    an_evaluation(tmp_path, {"a": flags([1, 2], 2)})
    assert write_scores(tmp_path) == json.loads((tmp_path / "scores.json").read_text())
