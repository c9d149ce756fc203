from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isentropic.task.kinds.literals import number
from isentropic.task.kinds.normal import normal


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("72", 72),
        ("-1,234.50", Fraction("-1234.5")),
        ("2/3", Fraction(2, 3)),
        (r"\frac{-1}{1997}", Fraction(-1, 1997)),
        (r"2\frac{3}{8}", Fraction(19, 8)),
        (r"0.1\overline{6}", Fraction(1, 6)),
        (r"1.6 \times 10^{-19}", Fraction("1.6e-19")),
        ("10^{-2}", Fraction(1, 100)),
        ("3 million", 3_000_000),
        ("2 dozen", 24),
        ("-1./3", Fraction(-1, 3)),
        ("1 234 567", 1234567),
    ],
)
def test_what_is_written_down_is_read(text, value):
    assert number(normal(text)).value == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "2x",
        "2+3",
        "1/0",
        "12 34",
        "1,23",
        "1,2345",
        "3!",
        "2^3",
        "1e99999",
        "10^{99999}",
        "12 or 13",
        "--5",
        "5-",
    ],
)
def test_what_is_left_to_work_out_is_no_literal(text):
    assert number(normal(text)) is None


@pytest.mark.parametrize(
    ("text", "rounded"),
    [
        ("33.3", True),
        ("0.29", True),
        ("4.5e33", True),
        ("3e8", False),
        ("0.5", False),
        ("2.25", False),
        ("27.0", False),
        ("100", False),
        ("1/3", False),
        ("0.1", False),
        ("0.10", True),
        ("1000.0", False),
    ],
)
def test_a_decimal_of_few_digits_or_of_eighths_is_exact(text, rounded):
    assert number(text).rounded == rounded


@settings(deadline=None)
@given(st.decimals(min_value=-(10**9), max_value=10**9, allow_nan=False, places=4))
def test_a_decimal_is_read_to_its_last_digit(value):
    read = number(normal(f"{value:f}"))
    assert read.value == Fraction(value)
    assert read.last == Fraction(1, 10**4)
