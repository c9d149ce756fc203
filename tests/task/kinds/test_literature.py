import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from isentropic.task import comparisons
from isentropic.task.equality import judge
from isentropic.task.kinds import grammar, literature
from isentropic.task.kinds.literature import minerva_text

DAPO = Path(sys.prefix) / "peers" / "verl" / "utils" / "reward_score" / "math_dapo.py"
ANSWERS = [
    *("72", "1,234", r"\frac12", r"\frac{1}{2}", "x = 5", r"\text{Evelyn}", r"90^\circ", r"\sqrt2", r"$\frac{1}{2}$."),
    *(
        r"5.4 \text{ cents}",
        r"10,\!080",
        r"\$32,\!348",
        "864 \\mbox{ inches}^2",
        "a square",
        r"\boxed{7}",
        "y = 2x + 3",
    ),
    *(
        "(1, 2)",
        "2, 120",
        "an answer",
        r"\textbf{(C)}",
        "",
        "$",
        r"\overline{AB}",
        "12 hours",
        r"\dots",
        "x=$5$ or $6$",
    ),
]


@pytest.mark.parity
@pytest.mark.skipif(not DAPO.is_file(), reason="verl is not beside this environment")
@pytest.mark.parametrize("answer", ANSWERS)
def test_answers_are_normalised_as_verl_does_for_dapo(answer):
    spec = spec_from_file_location("math_dapo", DAPO)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert minerva_text(answer) == module.normalize_final_answer(answer)


@pytest.mark.parametrize(
    ("gold", "answer", "strict", "math_verify", "minerva", "dapo"),
    [
        ("72", "72", True, True, True, True),
        ("72", "48+24", False, True, True, False),
        ("1/3", "0.333333", False, True, False, False),
        ("0.5", r"\frac{1}{2}", True, True, True, False),
        (r"\frac{1}{2004!}", r"\frac{1}{2006!}", False, True, False, False),
        ("5", "x = 5", True, True, True, True),
        ("12", "12 units", True, True, True, True),
        ("1234", "1,234", True, True, True, True),
    ],
)
def test_what_others_pay_for_is_named(gold, answer, strict, math_verify, minerva, dapo):
    wanted = {"strict": strict, "math_verify": math_verify, "minerva": minerva, "dapo": dapo}
    assert {name: judge(gold, answer, name)[1] for name in wanted} == wanted


NESTED = [
    (left * 40, right * 40) for left, right in ("()", "[]", "{}", ("\\{", "\\}"), ("\\frac{", "}{2}"), ("2^{", "}"))
]


@pytest.mark.parametrize(("left", "right"), NESTED)
def test_what_others_read_a_bracket_in_a_tenth_of_a_second_is_not_read_where_it_is_deep(left, right, monkeypatch):
    deep = f"{left}x{right}"
    for module, name in ((grammar, "parse"), (comparisons, "parse"), (literature, "latex2sympy")):
        read = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda text, read=read, **how: pytest.fail(text) if deep in text else read(text, **how)
        )
    assert comparisons.CHECKS["math_verify"]("72", deep) == comparisons.CHECKS["minerva"]("72", deep) == "wrong"
    assert comparisons.CHECKS["stare"]("72", rf"So \boxed{{{deep}}}") != "right"
    assert comparisons.CHECKS["strict"](r"\int_0^1 x dx", rf"\int {deep} dx") != "right"


def test_an_answer_may_be_as_deep_as_its_gold():
    gold = "((((((((x))))))))"
    assert not grammar.is_shallow(gold, "x") and grammar.is_shallow(gold, gold)
    assert grammar.is_shallow(")" * 50 + r"\frac{1}{\sqrt{2}} [" + "()" * 50, "x")
