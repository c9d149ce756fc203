import json
from pathlib import Path

import pytest

from isentropic.task.answers import final_answer
from isentropic.task.equality import clean, compare, judge
from isentropic.task.judge_pool import JudgePool

CASES = Path(__file__).parents[3] / "shared" / "data" / "verifier_cases.jsonl"
MISJUDGED = {  # not arguable, and yet not judged as they should be
    "vc-002": "numbers that both round to zero",
    "vc-004": "numbers that differ by less than six decimals show",
    "vc-013": "sequences with an ellipsis",
    "vc-076": "an answer in prose, without box or marker",
    "vc-082": "a radical sign that is not LaTeX",
    "vc-089": "Chinese prose",
    "vc-091": "Chinese prose",
    "vc-097": "an answer in prose, without box or marker",
}


@pytest.mark.parametrize(
    ("gold", "answer", "status"),
    [
        ("72", "72", "right"),
        ("72", "72.00", "right"),
        ("72", "$72", "right"),
        ("1234", "1,234", "right"),
        ("1234", r"\$1{,}234.00", "right"),
        ("0.5", r"\frac{1}{2}", "right"),
        ("72", r"72 \text{ clips}", "right"),
        ("-5", "\u22125", "right"),
        (r"1.6 \times 10^{-19}", "1.6e-19", "right"),
        ("72", "-72", "wrong"),
        ("72", "7.2", "wrong"),
        ("72", "172", "wrong"),
        ("0.0000001", "0.0000002", "wrong"),
        ("3", "3e8", "wrong"),
        ("72", "?", "unparseable"),
    ],
)
def test_answers_are_compared_by_value(gold, answer, status):
    assert compare(clean(gold), clean(answer)) == status


def test_a_verdict_pays_only_what_is_right():
    assert judge("72", "72") == (1.0, True, "right")
    assert judge("72", "71") == (0.0, False, "wrong")


def test_delimiters_do_not_matter_on_either_side():
    forms = [r"\frac{9}{7}", r"$\frac{9}{7}$", r"\(\frac{9}{7}\)", r"$$\frac{9}{7}$$", r"\frac{9}{7}."]
    assert {compare(clean(gold), clean(answer)) for gold in forms for answer in forms} == {"right"}


@pytest.mark.skipif(not CASES.is_file(), reason="the collected verifier cases are not beside this repository")
def test_answers_that_graders_got_wrong_are_judged_right_but_for_the_known_ones():
    cases = [json.loads(line) for line in CASES.read_text().splitlines()]
    quick, patient = (JudgePool("isentropic.task.equality:judge", 2, timeout, 4.0) for timeout in (1.5, 30.0))
    hanging = [case for case in cases if case["expected"] == "must-not-hang"]
    others = [case for case in cases if case["expected"] != "must-not-hang"]
    held = quick([pair(case) for case in hanging])
    verdicts = patient([pair(case) for case in others])
    quick.close()
    patient.close()
    assert hanging and others
    assert not any(verdict.correct for verdict in held)
    misjudged = {
        case["id"]
        for case, verdict in zip(others, verdicts, strict=True)
        if not case["arguable"]
        and (verdict.status == "crash" if case["expected"] == "must-not-crash" else verdict.correct != case["expected"])
    }
    assert misjudged == set(MISJUDGED)


def pair(case):
    return tuple(final_answer(case[side], "####") or case[side] for side in ("gold", "prediction"))
