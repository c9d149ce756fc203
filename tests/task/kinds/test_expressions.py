import pytest

from isentropic.task.kinds.evaluation import equal
from isentropic.task.kinds.exact import exact
from isentropic.task.kinds.expressions import Unreadable, formula


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (r"\frac43", "4/3"),
        ("2e3", "2000"),
        (r"\sin^2 x + \cos^2 x", "1"),
        (r"\sin^{-1} x", r"\arcsin x"),
        (r"\sin 2x", r"\sin(2 x)"),
        (r"\log_2 8", "3"),
        (r"\sqrt[3]{-8}", "-2"),
        ("1/2x", "x/2"),
        (r"f(x+1)", "f(1+x)"),
        ("n(n+1)", "n^2+n"),
        ("|x-1|", "|1-x|"),
        (r"x_{1} + x_2", "x_2 + x_1"),
        (r"y^{\prime}", "y'"),
        ("5!", "120"),
        (r"e^{i\pi}", "-1"),
    ],
)
def test_formulas_of_the_same_value_are_equal(first, second):
    assert equal(formula(first), formula(second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("f(x)", "f(y)"),
        ("f(x)", "g(x)"),
        ("I(0)", "I(1)"),
        ("x_1", "x_2"),
        ("xy", "x+y"),
        ("x", "-x"),
        ("1/2x", "1/(2x)"),
        (r"\sqrt{x^2}", "x"),
        ("0", "x-x+1"),
        (r"2^{1000}+1", "2^{1000}"),
    ],
)
def test_others_are_not(first, second):
    assert not equal(formula(first), formula(second))


@pytest.mark.parametrize(
    "text", ["", "1 2", "(1", "1)", "+", "x^", r"\int x", r"\sum_n n", "1,2", "=", "3!!", "(" * 90 + "1" + ")" * 90]
)
def test_what_is_no_formula_is_refused(text):
    with pytest.raises(Unreadable):
        formula(text)


@pytest.mark.parametrize("text", ["2^{10^9}", "9^{9^{9^9}}", "(10^6)!", r"\binom{10^6}{500}", "0^{-1}", "1/0", "x"])
def test_what_is_too_large_or_no_number_has_no_exact_value(text):
    assert exact(formula(text)) is None
