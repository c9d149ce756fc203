import json
from dataclasses import replace
from pathlib import Path

import pytest

from isentropic.task.math_dataset import Math, ProblemSet

DATA = Path(__file__).parents[3] / "shared" / "data"
SETTINGS = {
    "longest": None,
    "validation": 0,
    "bad_answers": "drop",
    "template": "{question}\nBox it.",
    "marker": "Answer:",
    "strictness": "strict",
    "workers": 1,
    "timeout": 30.0,
    "memory": 4.0,
}


@pytest.fixture
def file(tmp_path):
    def write(name, *rows):
        path = tmp_path / name
        path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        return str(path)

    return write


def source(path, question="problem", answer="answer", marker=""):
    return ProblemSet(path=str(path), subset=None, split="test", question=question, answer=answer, marker=marker)


def task(train, test, **overrides):
    return Math(train=train, test=test, **(SETTINGS | overrides))


def asked(question, answer):
    return {"problem": question, "answer": answer}


def test_columns_are_named_and_several_sets_follow_each_other(file):
    verl = {"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one?"}]}
    verl |= {"reward_model": {"ground_truth": "34", "style": "rule"}}
    solution = {"question": "two?", "solution": r"thus \boxed{\frac{1}{2}} it is"}
    train = {
        "verl": source(file("verl.jsonl", verl), "prompt", "reward_model.ground_truth"),
        "worked": source(file("worked.jsonl", solution), "question", "solution"),
    }
    listed = {"q": "three?", "final": ["3", "5"]}
    test = {
        "numbers": source(file("numbers.jsonl", asked("four?", 27.0), asked("five?", "025"))),
        "lists": source(file("lists.jsonl", listed), "q", "final"),
        "marked": source(file("marked.jsonl", asked("six?", "2*4=8 #### 8")), marker="####"),
    }
    made = task(train, test)
    assert [p.reference for p in made.problems("train")] == ["34", r"\frac{1}{2}"]
    assert made.problems("train")[0].prompt == "one?\nBox it."
    assert [p.reference for p in made.problems("test")] == ["27.0", "025", "3, 5", "8"]
    texts = [r"\boxed{27}", "Answer: 25", "Answer: 5, 4", "so 8"]
    verdicts = made.verify(made.problems("test"), texts)
    assert [v.status for v in verdicts] == ["right", "right", "wrong", "unparseable"]
    texts = [r"\boxed{3^3}", "**Answer:** 025", r"\boxed{5} and \boxed{3}", r"\boxed{8} or \boxed{9}"]
    verdicts = made.verify(made.problems("test"), texts)
    assert [v.status for v in verdicts] == ["unsimplified", "right", "right", "wrong"]
    lax = task(train, test, strictness="math_verify")
    assert lax.verify(lax.problems("test")[:1], [r"\boxed{3^3}"])[0].correct
    lax.close()
    made.close()


def test_a_training_question_comes_once_and_never_from_a_test_set(file):
    rows = asked("a + b?", 1), asked("What is $x$?", 2), asked("a + b?", 1), asked("c?", 3)
    train, test = source(file("train.jsonl", *rows)), source(file("test.jsonl", asked("what is x", 2)))
    made = task({"train": train}, {"test": test}, validation=1)
    assert [p.reference for p in made.problems("train")] == ["1"]
    assert [p.reference for p in made.problems("validation")] == ["3"]
    made = task({"train": train}, {"test": test}, longest=2)
    assert [p.reference for p in made.problems("train")] == ["3"]
    with pytest.raises(ValueError, match=r"task\.validation=2 must be at least 0 and leave some of the 2 training"):
        task({"train": train}, {"test": test}, validation=2)
    with pytest.raises(ValueError, match=r"task\.validation=0 holds no training problem out"):
        task({"train": train}, {"test": test}).problems("validation")


@pytest.mark.parametrize(
    ("row", "settings", "message"),
    [
        (
            asked("one?", 1),
            {"question": "prompt"},
            r"line 1 of task\.train\.bad\.path=.* lacks prompt; its columns are",
        ),
        (asked("one?", 1), {"answer": "answer.text"}, r"it must be a record with the column answer\.text"),
        (asked("one?", "7"), {"marker": "####"}, r"line 1 of .* has no answer after '####' in '7'"),
        ([1], {}, r"line 1 of .* is \[1\]; it must be a record"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_with_their_place(file, row, settings, message):
    good = {"good": source(file("good.jsonl", asked("good?", 1)))}
    bad = replace(source(file("bad.jsonl", row)), **settings)
    with pytest.raises(ValueError, match=message):
        task({"bad": bad}, good)


def test_sets_that_are_missing_or_empty_are_refused(file):
    good = {"good": source(file("good.jsonl", asked("good?", 1)))}
    with pytest.raises(ValueError, match=r"task\.test has no set; choose one with task/set@task\.test"):
        task(good, {})
    with pytest.raises(ValueError, match=r"task\.train\.a\.path=nowhere\.jsonl is not a file"):
        task({"a": source("nowhere.jsonl")}, good)
    with pytest.raises(ValueError, match=r"task\.train\.a\.path=.* is empty"):
        task({"a": source(file("empty.jsonl"))}, good)
    with pytest.raises(ValueError, match=r"must contain \{question\}"):
        task(good, good, template="Q:")


published = pytest.mark.skipif(not DATA.is_dir(), reason="the published data sets are not beside this repository")


@pytest.mark.slow
@published
def test_the_published_sets_are_read_whole():
    pytest.importorskip("pyarrow", reason="parquet is read by pyarrow")
    train = {"dapo": source(DATA / "dapo_math_17k/dapo_math_17k.parquet", "prompt", "reward_model.ground_truth")}
    test = {
        "aime24": source(DATA / "aime24/test.json", "prompt"),
        "aime25": source(DATA / "aime25/test.jsonl"),
        "amc23": source(DATA / "amc23/test.jsonl"),
        "math500": source(DATA / "math500/test.jsonl"),
        "minerva": source(DATA / "minerva_math/test.jsonl", answer="solution"),
        "olympiad": source(DATA / "olympiadbench/test.jsonl", "question", "final_answer"),
    }
    made = task(train, test)
    assert len(made.problems("test")) == 30 + 30 + 40 + 500 + 272 + 675
    assert 17_000 < len(made.problems("train")) <= 17_290 - 7 - 8  # distinct, less those that MATH-500 and AMC share
    assert made.problems("test")[1].reference == "025"


@published
def test_published_answers_are_right_by_their_own_standard():
    test = {"aime24": source(DATA / "aime24/test.json", "prompt"), "amc23": source(DATA / "amc23/test.jsonl")}
    made = task({"math500": source(DATA / "math500/test.jsonl")}, test)
    problems = made.problems("test")
    verdicts = made.verify(problems, [rf"\boxed{{{float(p.reference):g}}}" for p in problems])
    assert all(verdict.correct for verdict in verdicts)
    made.close()


def test_near_copies_of_test_problems_are_left_out_of_training_where_that_is_asked_for(file):
    told = "Let n be the number of ways to colour the squares of a board of 4 rows; find n {}"
    train = source(file("train.jsonl", asked(told.format("modulo 7"), 1), asked("c?", 3)))
    test = source(file("test.jsonl", asked(told.format("over 9"), 2)))
    assert [p.reference for p in task({"train": train}, {"test": test}).problems("train")] == ["1", "3"]
    assert [p.reference for p in task({"train": train}, {"test": test}, drop_near=True).problems("train")] == ["3"]
