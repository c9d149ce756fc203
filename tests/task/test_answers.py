import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isentropic.task import answers
from isentropic.task.answers import after_marker, final_answer, last_box, whole_integer


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
        (r"\boxed{1}. It is \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\fbox{ 42 }", "42"),
        (r"\boxed {42}", "42"),
        (r"\boxed 5", "5"),
        (r"\boxed5.", "5"),
        (r"the number in \boxed is \boxed{5}", "5"),
        (r"\boxed{1} then cut off: \boxed{2", None),
        (r"\boxed{\frac{1}{2 so it is \boxed{3}", "3"),
        ("no box", None),
        (r"\boxed{}", None),
        (r"\boxed{\text{a {b} c}}", r"\text{a {b} c}"),
        (r"\boxed{\left\{1, 2\right.}", r"\left\{1, 2\right."),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{a \\{b}}", r"a \\{b}"),
        (r"\boxed{1, 2\}", None),
        (r"\boxed{\boxed{5}}", r"\boxed{5}"),
        (r"{\boxed{5}}}", "5"),
        (r"}}{\{\\{ \boxed{5} {", "5"),
        (r"\\boxed{5}", None),
        (r"\\\boxed{5}", "5"),
        (r"\\boxed{4} { \boxed{5", None),
        (r"\boxed{5}.</answer><|im_end|>", "5"),
    ],
)
def test_the_last_box_counts_with_its_braces_and_an_open_one_is_no_answer(text, answer):
    assert final_answer(text, "####") == answer
    assert (last_box(text) or None) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{3} or \boxed{4}", "3, 4"),
        (r"$\boxed{3}$, $\boxed{4}$", "3, 4"),
        (r"either \boxed{3}, or perhaps \boxed{4}", "3, 4"),
        (r"\boxed{3} \text{ or } \boxed{4}", "3, 4"),
        (r"\boxed{3}或\boxed{4}", "3, 4"),
        (r"\boxed{3}或者\boxed{4}", "3, 4"),
        (r"\boxed{3} \\ \boxed{4} \quad \boxed{5}", "3, 4, 5"),
        (r"x = \boxed{3}, y_1 = \boxed{4}", "3, 4"),
        ("- \\boxed{3}\n- \\boxed{4}", "3, 4"),
        ("1. \\boxed{3}\n2. \\boxed{4}", "3, 4"),
        (r"\boxed{3}, \boxed{4} and \boxed{5}", "3, 4, 5"),
        (r"\boxed{3}\boxed{3}", "3"),
        (r"\boxed{5} no: \boxed{7}", "7"),
        (r"\boxed{1}###Response\boxed{2}###Response\boxed{42}", "42"),
        (r"\boxed{35 cm} ++++++ \boxed{4}", "4"),
        (r"First \boxed{1}. Or rather, after a second look at it, one finds \boxed{2}", "2"),
    ],
)
def test_boxes_that_one_sentence_names_are_one_answer(text, answer):
    assert last_box(text) == answer


def test_a_box_goes_before_a_marker_and_a_marker_ends_with_its_line():
    assert final_answer("#### 3\n" r"\boxed{4}", "####") == "4"
    assert final_answer("2+40=42\n#### 42\n and the reasoning above", "####") == "42"
    assert final_answer("42", "####") is None
    assert final_answer("#### \n", "####") is None
    assert final_answer("#### 3 " r"\boxed{4", "####") is None


@pytest.mark.parametrize(
    "text",
    [
        "Answer: 42",
        "**Answer:** 42",
        "**Answer**: 42",
        "Answer:\n42",
        "Answer:\n\n$$\n42\n$$\nas was asked",
        "Answer:\\[ 42 \\]",
    ],
)
def test_bold_type_and_a_new_line_may_stand_around_a_marker(text):
    assert final_answer(text, "Answer:").replace("*", "").strip() == "42"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("-3.", -3),
        ("\u22125", -5),
        ("**12**", 12),
        ("$7", 7),
        ("$7$", 7),
        (r"\boxed{7}", 7),
        (r"\(7\)", 7),
        ("13.0", 13),
        ("1,000", 1000),
        ("13\nQ: next", 13),
        ("13 apples", None),
        ("13/7", None),
        ("13e5", None),
        ("13\u00bd", None),
        ("13 or 14", None),
        ("13, 14", None),
        ("13!", None),
        ("13+1", None),
        ("13+", 13),
        ("13%", None),
        ("13^2", None),
        ("1,00", None),
        (".5", None),
        ("10.5", None),
        ("ten", None),
        ("", None),
        ("9" * 10_000, None),
    ],
)
def test_an_integer_is_the_whole_line_or_nothing(text, value):
    assert whole_integer(text) == value


LOOPS = [
    r"\boxed{",
    r"\boxed{\frac{1}{2 so ",
    r"\boxed{5} or ",
    r"\boxed 5 ",
    "{",
    "}",
    "\\",
    "#### 5\n",
    "#### ",
    r"\boxed{5}" + " " * 58,
    r"\boxed{1} x",
]


def lines_run(text):
    """Lines of Python that are executed; what is searched by patterns is bounded at each place."""
    count = 0

    def trace(*_):
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        answers.final_answer(text, "####")
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("loop", LOOPS)
def test_finding_an_answer_takes_work_in_proportion_to_the_text(loop):
    for before in ("", r"\boxed{1}"):  # marks are looked for from the first box on
        once, twice = lines_run(before + loop * 500), lines_run(before + loop * 1_000)
        assert twice <= 2 * once + 50
    if loop.startswith(r"\boxed{"):
        once, twice = lines_run(loop * 500 + "}" * 500), lines_run(loop * 1_000 + "}" * 1_000)
        assert twice <= 2 * once + 50


@settings(deadline=None)
@given(st.text(), st.text(min_size=1, max_size=5))
def test_nothing_a_model_writes_raises(text, marker):
    final_answer(text, marker)
    whole_integer(after_marker(text, marker) or "")


@settings(deadline=None)
@given(st.integers(-(10**30), 10**30))
def test_every_integer_is_read_back(value):
    assert whole_integer(after_marker(f"so Answer: {value}\n", "Answer:") or "") == value
