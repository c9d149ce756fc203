import pytest

from isentropic.task.kinds.evaluation import equal
from isentropic.task.kinds.exact import EXACT, exact
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


@pytest.mark.parametrize("head, part", [("fact", "4000!"), ("pow", "9^{10000}"), ("binom", r"\binom{10000}{5000}")])
def test_a_formula_of_many_large_numbers_is_given_up_after_the_first_of_them(head, part, monkeypatch):
    done, work = [], EXACT[head]
    monkeypatch.setitem(EXACT, head, lambda *args: done.append(args) or work(*args))
    assert exact(formula(f"{part}-{part}+1")) == 1
    done.clear()
    assert exact(formula("+".join([part] * 150))) is None
    assert len(done) <= 60


def test_nothing_is_worked_out_beside_what_has_no_exact_value(monkeypatch):
    monkeypatch.setitem(EXACT, "fact", lambda _: pytest.fail("it is worked out"))
    assert exact(formula("x+5000!")) is None


@pytest.mark.parametrize("part", ["1e9999", "1e-9999", "1E+9999"])
def test_exponents_of_a_computer_s_notation_are_read_as_far_as_their_digits_are_few(part):
    assert equal(formula(f"{part}+1-{part}"), formula("1"))
    with pytest.raises(Unreadable):
        formula("+".join([part] * 3))
