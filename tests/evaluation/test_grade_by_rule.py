"""Each grader on what tells it from the others; those that compare in caged processes share one folder of them."""

import re
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from isentropic.config.build import BadInput
from isentropic.config.exam_grading import check_markers
from isentropic.config.graders import graders_of
from isentropic.evaluation.grader import Item
from isentropic.evaluation.set_checks import unjudgeable
from isentropic.task.kinds import qwen_math
from isentropic.tools import Outcome

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
TEXTS = ("boxed_string", "dapo_answer", "integer", "last_number")
CAGED = ("math_verify", "prm800k", "qwen_math", "stare")
R, W, U, S = "right", "wrong", "unparseable", "unsimplified"
# gold, text, and what each says of it
CASES = [
    ("25", r"so \boxed{025}", {"integer": R, "boxed_string": W, "dapo_answer": U, **dict.fromkeys(CAGED, R)}),
    ("025", r"so \boxed{25}", {"integer": R, "boxed_string": W, **dict.fromkeys(CAGED, R)}),
    ("27", r"\boxed{27.0}", {"integer": R, "boxed_string": W, **dict.fromkeys(CAGED, R)}),
    ("1/2", r"\boxed{ 1/2 }", {"integer": U, "boxed_string": R, **dict.fromkeys(CAGED, R)}),
    ("1/2", r"\boxed{0.5}", {"boxed_string": W, **dict.fromkeys(CAGED, R)}),
    ("1,218", "So 3 x $406 = $1,218.00. The answer is $1218.\n\nQ:", {"last_number": R}),
    ("18", "The answer is 18.00", {"last_number": W}),
    ("-5", "It is -5", {"last_number": R}),
    ("5", "It is five.", {"last_number": U}),
    ("33", "We add.\nAnswer: 33", {"integer": R, "boxed_string": U, "dapo_answer": R, "math_verify": R, "prm800k": U}),
    ("33", "answer : $33$ degrees", {"dapo_answer": R, "boxed_string": U}),
    ("33", "Answer: 33" + "." * 300, {"dapo_answer": U}),
    ("33", "Answer: 34\nAnswer: 33", {"dapo_answer": R, "integer": R}),
    ("33", r"Answer: 33. Or \boxed{34}", {"dapo_answer": W, "boxed_string": W, "integer": W, "math_verify": W}),
    ("5", "The answer is 5.", {"qwen_math": R, "stare": R, "math_verify": U, "prm800k": U, "integer": U}),
    ("4000", "we get 3 and then 4,000", {"qwen_math": R, "math_verify": U}),
    ("4", r"\boxed{3} or \boxed{4}", {"boxed_string": R, "prm800k": R, "stare": R, "math_verify": W, "integer": U}),
    ("7", r"\boxed{7} and then \boxed{", {"boxed_string": U, "integer": U, "math_verify": U, "prm800k": U}),
    ("50", r"\boxed{0.5}", {"qwen_math": R, "math_verify": W, "prm800k": W}),
    ("5", r"\boxed{2+3}", {"math_verify": S, "qwen_math": R, "prm800k": W, "stare": R, "boxed_string": W}),
    ("1/2", r"<think>\boxed{1/2}</think> I am done.", {"stare": U, "math_verify": R}),
    ("1/2", r"<think>\boxed{1/3}</think> So \boxed{\frac{1}{2}}.", {"stare": R, "math_verify": R}),
    ("1/2", r"<think>\boxed{1/2}</think> So \boxed{\frac{1}{3}}.", {"stare": W}),
    ("1/2", r"<think>\boxed{1/2}</think>", {"stare": U}),
    ("1/2", r"<think> it is \boxed{1/2}", {"stare": U}),
    ("1/2", r"a <answer>\boxed{1/2}</answer> b", {"stare": R}),
    ("8", "</think> It was 9.\n**Answer**: 8", {"stare": R}),
    ("8", "最终答案\uff1a8", {"stare": R}),
    ("7", "nothing", dict.fromkeys((*TEXTS, *CAGED), U)),
    ("7", "", dict.fromkeys((*TEXTS, *CAGED), U)),
]


@pytest.fixture(scope="module")
def graders():
    made = graders_of([*TEXTS, *CAGED], [f"graders.{name}.workers=1" for name in CAGED])
    yield made
    for grader in made.values():
        grader.close()


@pytest.mark.parametrize("name", [*TEXTS, *CAGED])
def test_a_grader_says_what_its_source_says(graders, name):
    cases = [(gold, text, said[name]) for gold, text, said in CASES if name in said]
    grades = graders[name].grade([Item("?", gold, text) for gold, text, _ in cases])
    found = [(gold, text, grade.status) for (gold, text, _), grade in zip(cases, grades, strict=True)]
    assert found == cases
    assert all(grade.right == (grade.status == R) for grade in grades)
    assert all((grade.extracted is None) == (grade.status == U) for grade in grades)


@pytest.mark.parametrize("name", [*TEXTS, *(pytest.param(one, marks=pytest.mark.slow) for one in CAGED)])
def test_what_a_model_may_write_never_ends_a_grader(graders, name):
    hostile = ["\\boxed{" * 400, "\\boxed{" + "(" * 3000 + "}", "Answer:" * 5000, "\x00\ud7ff\\frac", "9" * 20_000]
    hostile += ["</think>" * 2000, "\\boxed{9^{9^{9^{9}}}}", "\\boxed{" + "\\frac{" * 300 + "1" + "}" * 301]
    grades = graders[name].grade([Item("?", "7", text) for text in [*hostile, r"Answer: 7, \boxed{7}", "Answer: 7"]])
    assert len(grades) == 10 and not any(grade.right for grade in grades[:8])
    assert graders[name].grade([]) == []


def test_a_rule_of_many_passes_reads_no_answer_that_is_far_longer_than_any_gold():
    assert qwen_math.equal("72", "72" + " " * 2_000) and not qwen_math.equal("72", "72" + " " * 4_000)
    assert qwen_math.equal("7" * 5_000, "7" * 5_000)


def test_what_is_kept_as_the_answer_is_what_was_read(graders):
    item = Item("?", "1/2", r"x <think>..</think> **Answer** is \boxed{\frac{1}{2}}" + "\nAnswer: 1,000")
    found = {name: grader.grade([item])[0].extracted for name, grader in graders.items()}
    assert found["boxed_string"] == found["prm800k"] == found["math_verify"] == found["qwen_math"] == r"\frac{1}{2}"
    assert found["dapo_answer"] == "1000" and found["integer"] is None and found["stare"] == r"\frac{1}{2}"


def test_a_prompt_that_has_opened_the_reasoning_makes_its_end_needed():
    (grader,) = graders_of(["stare"], ["graders.stare.closed=true", "graders.stare.workers=1"]).values()
    texts = [r"so \boxed{7}", r"so \boxed{8}</think>\boxed{7}"]
    assert [grade.status for grade in grader.grade([Item("?", "7", text) for text in texts])] == [U, R]
    grader.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a cage")
def test_an_answer_that_ends_its_process_costs_no_other_its_verdict(graders, monkeypatch):
    grader = graders["prm800k"]
    pool = grader.judges.pool
    asked = []

    def failing(calls):
        """As where one answer of those that are compared together hangs."""
        asked.extend(len(pairs) for _, pairs in calls)
        bad = [any(answer == "666" for _, answer in pairs) for _, pairs in calls]
        said = iter(pool([call for call, ends in zip(calls, bad, strict=True) if not ends]))
        return [Outcome("timeout", b"") if ends else next(said) for ends in bad]

    monkeypatch.setattr(grader.judges, "pool", failing)
    grades = grader.grade([Item("?", str(k), rf"\boxed{{{k}}}") for k in range(660, 680)])
    assert [grade.status for grade in grades] == [R] * 6 + ["timeout"] + [R] * 13
    assert asked == [16, 4] + [1] * 16


@pytest.mark.parametrize(
    ("name", "token"), [("integer", "Answer:"), ("boxed_string", r"\boxed"), ("stare", "</think>")]
)
def test_a_grader_whose_marks_are_special_tokens_is_refused_before_anything_is_asked(graders, tiny_model, name, token):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    check_markers(tokenizer, {"a": graders})
    tokenizer.add_special_tokens({"additional_special_tokens": [token]})
    (grader,) = graders_of([name], ["graders.stare.closed=true"] if name == "stare" else []).values()
    with pytest.raises(BadInput, match=rf"grader {name} looks for .*, and decoding takes out {re.escape(token)}"):
        check_markers(tokenizer, {"a": {name: grader}})
    grader.close()


def test_equal_answers_are_compared_once(graders, monkeypatch):
    grader = graders["prm800k"]
    pool, seen = grader.judges.pool, []

    def counting(calls):
        seen.extend(pair for _, pairs in calls for pair in pairs)
        return pool(calls)

    monkeypatch.setattr(grader.judges, "pool", counting)
    items = [Item("?", "1", f"{'.' * k} \\boxed{{{k % 2}}}") for k in range(40)]
    assert [grade.right for grade in grader.grade(items)] == [False, True] * 20
    assert len(seen) == 2


def test_the_table_of_the_docs_says_what_graders_say(graders):
    text = (ROOT / "docs" / "graders.md").read_text(encoding="utf-8").partition("Where they differ:")[2]
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*$", text, re.MULTILINE)
    ]
    assert len(rows) == 8 and set(head[2:]) == set(graders)
    for gold, answer, *said in rows:
        item = Item("?", gold.strip("`"), answer.strip("`"))
        found = [graders[name].grade([item])[0].status for name in head[2:]]
        assert [{U: "none"}.get(status, status) for status in found] == said, (gold, answer)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the published data sets are not beside this repository")
def test_every_gold_of_the_published_sets_is_right_by_graders_of_formulas(graders, script, tmp_path):
    benchmark = script(ROOT / "benchmarks" / "graders.py")
    asked = [problem for name in benchmark.SETS for problem in benchmark.problems(DATA, name)]
    assert len(asked) == 2_866
    formulas = graders.keys() - {"integer", "last_number"}  # these read numbers alone
    assert {name: [one.gold for one in unjudgeable(asked, graders[name])] for name in formulas} == {
        name: [] for name in formulas
    }
    whole = [one for one in asked if one.set in ("aime24", "aime25", "amc23", "gsm8k")]
    assert unjudgeable(whole, graders["integer"]) == unjudgeable(whole, graders["last_number"]) == []
