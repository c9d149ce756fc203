import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isentropic.task.answers import after_marker, boxed, final_answer, leading_integer


@pytest.mark.parametrize(
    ("text", "marker", "answer"),
    [
        ("2*3=6. Answer: 10", "Answer:", "10"),
        ("Answer: 1\nno. Answer: 2", "Answer:", "2"),
        ("10", "Answer:", None),
        (" 10 ", "", "10"),
        ("<answer>7</answer> and more", "<answer>", "7"),
        ("so <answer>7", "<answer>", "7"),
        ("Answer:", "Answer:", ""),
    ],
)
def test_the_last_marker_counts(text, marker, answer):
    assert after_marker(text, marker) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{1} or \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\fbox{ 42 }", "42"),
        (r"\boxed{1} then cut off: \boxed{2", "1"),
        ("no box", None),
        (r"\boxed{\text{a {b} c}}", r"\text{a {b} c}"),
    ],
)
def test_the_last_closed_box_counts_with_its_braces(text, answer):
    assert boxed(text) == answer


def test_a_box_goes_before_a_marker_and_a_marker_ends_with_its_line():
    assert final_answer("#### 3\n" r"\boxed{4}", "####") == "4"
    assert final_answer("2+40=42\n#### 42\n and the reasoning above", "####") == "42"
    assert final_answer("42", "####") is None
    assert final_answer("#### \n", "####") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("-3.", -3),
        ("\u22125 apples", -5),
        ("**12**", 12),
        ("$7", 7),
        ("10.5", None),
        ("1,000", None),
        ("ten", None),
        ("", None),
        ("9" * 10_000, None),
    ],
)
def test_an_integer_is_read_whole_or_not_at_all(text, value):
    assert leading_integer(text) == value


@settings(deadline=None)
@given(st.text(), st.text(min_size=1, max_size=5))
def test_nothing_a_model_writes_raises(text, marker):
    final_answer(text, marker)
    leading_integer(after_marker(text, marker) or "")


@settings(deadline=None)
@given(st.integers(-(10**30), 10**30))
def test_every_integer_is_read_back(value):
    assert leading_integer(after_marker(f"so Answer: {value}\n", "Answer:") or "") == value
