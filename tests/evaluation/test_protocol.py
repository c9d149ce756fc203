"""Protocols are data that cannot contradict itself, and each file says what its source says."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from isentropic.evaluation.protocol import Exam, Protocol, parsed
from isentropic.sampler import Decoding

FOLDER = Path(__file__).parents[2] / "configs" / "evaluation" / "protocol"
DOCS = Path(__file__).parents[2] / "docs" / "evaluation.md"
FILES = sorted(FOLDER.glob("*.yaml"))
DECODING = Decoding(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=8, stop=None)
EXAM = Exam(sets=["aime24", "math500[100]"], count=4, decoding=DECODING)
PROTOCOL = Protocol(
    name="mine", source="a paper", grade="A", template="{question}!", chat=False, system=None,
    exams={"one": EXAM, "two": Exam(["amc23"], 8, DECODING)}, graders=["math_verify"], scores=["avg", "pass@4"],
    assumed={"top_p": "not stated"}, says=None, turns=1, only=None,
)  # fmt: skip
# sets @ answers, temperature, top_p, top_k, tokens; None is that of a training
HARD, EASY = ["aime24", "aime25", "amc23"], ["math500", "minerva", "olympiad"]
NUMBERS = {
    "stare_train": [(["aime24", "aime25"], 32, 1.0, 0.7, 0, 3072)],
    "stare": [(HARD, 32, 1.0, 0.7, 0, None), (EASY, 4, 1.0, 0.7, 0, None)],
    "stapo_aligned": [(HARD, 32, 1.0, 1.0, 0, 20480), (EASY, 4, 1.0, 1.0, 0, 20480)],
    "stapo_cool": [(HARD, 32, 0.7, 0.9, 0, 20480), (EASY, 4, 0.7, 0.9, 0, 20480)],
    "just_rl": [([*HARD, "brumo25", "cmimc25", "hmmt25"], 32, 0.7, 0.9, 0, 31744), (EASY, 4, 0.7, 0.9, 0, 31744)],
    "dapo": [(["aime24"], 32, 1.0, 0.7, 0, 20480)],
    "entropy_20": [([*HARD, *EASY], 16, 1.0, 0.7, 0, 20480)],
    "kl_cov_script": [([*HARD, *EASY], 1, 0.0, 1.0, 0, 8192)],
    "kl_cov": [(HARD, 32, 0.6, 1.0, 0, 8192), (EASY, 1, 0.0, 1.0, 0, 8192)],
    "flexible": [([*HARD, "math500", "gsm8k", "olympiad"], 32, 0.7, 0.8, 20, 4096)],
    "gtpo": [(["aime24", "aime25", "math500"], 32, 1.0, 1.0, 0, 4096)],
    "qae": [(HARD, 32, 0.7, 1.0, 0, 20480)],
    "simpletir": [(["aime24", "aime25", "math500"], 32, 1.0, 0.7, 0, 12000)],
    "qwen_math": [(["gsm8k", *EASY, "aime24", "amc23"], 1, 0.0, 1.0, 0, 2048)],
    "sober": [(HARD, 10, 0.8, 0.9, 0, 32768), (EASY, 3, 0.8, 0.9, 0, 32768)],
    "gsm8k_cot": [(["gsm8k"], 1, 0.0, 1.0, 0, 256)],
    "quick": [(["aime24", "aime25"], 4, 1.0, 1.0, 0, None), (["math500[100]"], 1, 1.0, 1.0, 0, None)],
}  # fmt: skip
GRADES = {
    "stare_train": "A", "stare": "B", "stapo_aligned": "A", "stapo_cool": "A", "just_rl": "A", "dapo": "A",
    "entropy_20": "A", "kl_cov_script": "A", "kl_cov": "C", "flexible": "C", "gtpo": "B", "qae": "B", "simpletir": "A",
    "qwen_math": "A", "sober": "A", "gsm8k_cot": "A", "quick": "A",
}  # fmt: skip


def read(name: str) -> dict:
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text())


def test_every_protocol_is_here_under_its_own_name():
    assert {file.stem for file in FILES} == {*NUMBERS, "own"}
    assert all(read(file.stem)["name"] == file.stem for file in FILES)


@pytest.mark.parametrize("name", NUMBERS)
def test_sets_answers_and_decoding_are_the_source_s(name: str):
    found = []
    for exam in read(name)["exams"].values():
        one = exam["decoding"]
        tokens = None if one["max_tokens"] == "${training.max_tokens}" else one["max_tokens"]
        found.append((exam["sets"], exam["count"], one["temperature"], one["top_p"], one["top_k"], tokens))
        assert (one["min_p"], one["stop"]) == (0.0, "Q:" if name == "gsm8k_cot" else None)
    assert found == NUMBERS[name] and read(name)["grade"] == GRADES[name]


def test_what_no_source_states_is_named():
    assert {"decoding", "max_tokens", "template", "graders"} <= read("gtpo")["assumed"].keys()
    assert {"top_p", "max_tokens"} <= read("qae")["assumed"].keys()
    assert "top_p" in read("entropy_20")["assumed"] and "decoding" in read("stare")["assumed"]
    assert {"count", "template"} <= read("flexible")["assumed"].keys()
    assert "sets" in read("kl_cov_script")["assumed"] and "graders" in read("just_rl")["assumed"]


def test_prompts_differ_where_the_papers_do():
    boxed = "Please reason step by step, and put your final answer within \\boxed{}."
    assert (
        read("stare")["template"] == f"{{question}}\n{boxed}" and read("just_rl")["template"] == f"{{question}} {boxed}"
    )
    assert read("dapo")["template"].endswith('Remember to put your answer on its own line after "Answer:".')
    assert (read("qwen_math")["template"], read("qwen_math")["system"]) == ("{question}", boxed)


def test_eight_worked_examples_stand_before_a_question_of_gsm8k():
    template = read("gsm8k_cot")["template"]
    assert template.count("Q: ") == template.count("\nA:") == 9 and template.count("The answer is ") == 8
    assert template.endswith("\n\nQ: {question}\nA:")


def test_stare_says_where_its_table_comes_from():
    (line,) = (one for one in Protocol(**settings("stare")).sentences() if "note" in one)
    assert "the paper's table equals the peak of its plotted curve (inferred)" in line


def settings(name: str) -> dict:
    node = {key: value for key, value in read(name).items() if key != "_target_"}
    exams = {
        key: Exam(exam["sets"], exam["count"], replace(DECODING, temperature=exam["decoding"]["temperature"]))
        for key, exam in node["exams"].items()
    }
    return node | {"exams": exams}


def test_assumptions_are_said():
    assert PROTOCOL.sentences() == [
        "protocol mine: a paper (grade A)",
        "  assumed, as the source does not say it: top_p: not stated",
    ]


def test_only_some_of_the_sets():
    assert replace(PROTOCOL, only=["amc23"]).chosen() == {"two": PROTOCOL.exams["two"]}
    for name in ("math500", "math500[100]"):
        assert replace(PROTOCOL, only=[name]).chosen() == {"one": replace(EXAM, sets=["math500[100]"])}
    assert PROTOCOL.chosen() == PROTOCOL.exams


@pytest.mark.parametrize(
    "change, said",
    [
        ({"only": ["aime99"]}, r"only=\[aime99\] is no set of mine; there are aime24, math500\[100\], amc23"),
        ({"only": []}, r"only=\[\] leaves no set to be asked"),
        ({"exams": {}}, r"exams=\{\} leaves no set to be asked"),
        ({"template": "no place"}, "has no {question}"),
        ({"system": "Be brief."}, "chat=false is plain text"),
        ({"graders": []}, "leaves no one to judge"),
        ({"scores": ["mean"]}, "'mean', which is none of avg, pass, pass@K, maj"),
        ({"scores": ["pass@8"]}, r"pass@8 needs 8 answers of each problem, and exams.one.count=4"),
        ({"exams": {"one": EXAM, "two": EXAM}}, "the set aime24 is in two exams"),
        ({"exams": {"one": EXAM, "two": Exam(["math500"], 1, DECODING)}}, "the set math500 is in two exams"),
    ],
)
def test_what_contradicts_itself_is_refused(change, said):
    with pytest.raises(ValueError, match=said):
        replace(PROTOCOL, **change)


@pytest.mark.parametrize(
    "change, said",
    [
        ({"sets": []}, "has no sets"),
        ({"sets": ["math500[0]"]}, "is no set"),
        ({"sets": ["a b"]}, "is no set"),
        ({"count": 0}, "count=0"),
        ({"decoding": replace(DECODING, temperature=0.0)}, "count=4 answers at temperature=0 would all be the same"),
    ],
)
def test_an_exam_that_cannot_be_asked_is_refused(change, said):
    with pytest.raises(ValueError, match=said):
        replace(EXAM, **change)


def test_greedy_has_one_answer():
    assert replace(EXAM, count=1, decoding=replace(DECODING, temperature=0.0)).decoding.greedy


def test_the_number_stands_in_the_name():
    assert parsed("math500[128]") == ("math500", 128) and parsed("aime24") == ("aime24", None)


def row(name: str) -> str:
    """Of the table in docs/evaluation.md."""
    node = read(name)
    cells = []
    for exam in node["exams"].values():
        one = exam["decoding"]
        tokens = "training's" if isinstance(one["max_tokens"], str) else f"{one['max_tokens']:,}"
        filters = f"{one['temperature']:g} / {one['top_p']:g} / {one['top_k'] or 'off'}"
        drawn = "greedy" if one["temperature"] == 0 else filters
        cells.append((f"{', '.join(exam['sets'])} @{exam['count']}", f"{drawn}, {tokens}"))
    exams, drawn = ("; ".join(dict.fromkeys(column)) for column in zip(*cells, strict=True))
    assumed = ", ".join(node["assumed"]) or "-"
    return f"| `{name}` | {exams} | {drawn} | {', '.join(node['graders'])} | {node['grade']} | {assumed} |"


def test_the_table_of_the_docs_is_that_of_the_files():
    table = DOCS.read_text().partition("| protocol | sets @ answers |")[2].partition("\n\n")[0]
    assert [line for line in table.splitlines() if line.startswith("| `")] == [row(name) for name in NUMBERS]
