import json

import pytest

from isentropic.runs.completions import of_line, packed, quadrant


def test_a_line_of_today_says_all(answer):
    seen = of_line(answer())
    assert seen["surprisal"] == [0.5, 2.0, 0.1] and seen["entropy"] == [1.0, 0.5, 0.2]
    assert (seen["estimate"], seen["weight"], seen["credit"]) == (0.5, [1.0, 5.0, 1.0], [0.5, 2.5, 0.5])
    assert seen["quadrant"] == "101", "praise of an expected, a surprising and an expected token"
    assert seen["dropped"] == [2] and seen["touched"] == {"stare": [1], "stapo": [2]}
    assert seen["texts"] == ["a", "b", "c"] and not seen["derived"]


def test_what_was_observed_between_turns_is_told_by_the_place_after_it(answer):
    assert of_line(answer())["observed"] == []
    assert of_line(answer(observed=[[1, "24;"]]))["observed"] == [[1, "24;"]]
    assert of_line(answer(observed=[["x", 1], [2], 3]))["observed"] == []


@pytest.mark.parametrize(
    "advantages, estimate, weight, quadrants",
    [
        ([0.5, 2.5, 0.5], 0.5, [1.0, 5.0, 1.0], "101"),
        ([0.0, 0.0, 0.0], 0.0, 1.0, "444"),
        ([0.1, 0.2, 0.3], None, None, "555"),
    ],
)
def test_of_an_older_line_weights_are_derived_where_most_tokens_share_an_advantage(
    answer, advantages, estimate, weight, quadrants
):
    older = answer(advantages=advantages)
    for key in ("estimate", "weight", "ratio", "touched", "clipped", "limits", "texts"):
        del older[key]
    seen = of_line(older)
    assert (seen["estimate"], seen["weight"], seen["derived"]) == (estimate, weight, True)
    assert (seen["ratio"], seen["touched"], seen["clipped"], seen["limits"]) == (None, None, None, {})
    assert seen["quadrant"] == quadrants


@pytest.mark.parametrize(
    "completion, tokens, expected",
    [
        ("1+<eos>", [3, 4, 1], ["1", "+", "<eos>"]),
        ("hello there", [30, 40, 50], ["#30", "#40", "#50"]),
        ("hello there", ["hello", " ", "there"], ["hello", " ", "there"]),
        ("hello there", None, ["#0", "#1", "#2"]),
    ],
)
def test_of_an_older_line_characters_are_tokens_if_there_are_as_many(answer, completion, tokens, expected):
    older = answer(completion=completion, tokens=tokens) | {"texts": None}
    assert of_line(older)["texts"] == expected


def test_the_quadrants_are_those_of_the_metrics():
    assert [quadrant(a, -s, 1.0) for a in (1.0, -1.0) for s in (2.0, 0.5)] == [0, 1, 2, 3]
    assert quadrant(0.0, -1.0, 1.0) == 4
    assert quadrant(1.0, -1.0, 1.0) == 1, "as in diagnostics, the border is expected"
    assert quadrant(None, -1.0, 1.0) == quadrant(1.0, -1.0, None) == 5


def test_equal_numbers_are_one_and_no_more_digits_than_can_be_seen():
    assert packed([1.0, 1.0]) == 1.0 and packed([]) == [] and packed(None) is None
    assert packed([0.1234567, 2.0]) == [0.1235, 2.0] and packed([1e-9, 1.0]) == [0.0, 1.0]


@pytest.mark.degenerate
def test_what_is_no_number_is_not_known(answer):
    nan = float("nan")
    seen = of_line(
        answer(entropy=[nan, 1.0, None], estimate="x", weight=[1, 2], touched=[1], limits={"low": "x"}, reward=nan,
               kept=3, clipped={"low": 1})
    )  # fmt: skip
    assert seen["entropy"] == [None, 1.0, None] and seen["reward"] is None
    assert seen["weight"] == [1.0, 5.0, 1.0] and seen["derived"], "an estimate that cannot be read is derived"
    assert (seen["touched"], seen["clipped"], seen["limits"], seen["dropped"]) == (None, None, {}, [])
    json.dumps(seen, allow_nan=False)
