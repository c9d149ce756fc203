import json
from pathlib import Path

import pytest

from isentropic.task.gsm8k import Gsm8k

DATA = Path(__file__).parents[3] / "shared" / "data" / "gsm8k"
SETTINGS = {
    "validation": 0,
    "template": "{question}\nEnd with #### and the number.",
    "marker": "####",
    "strictness": "strict",
    "workers": 1,
    "timeout": 30.0,
    "memory": 4.0,
}


def row(question, answer="so #### 7"):
    return {"question": question, "answer": answer}


@pytest.fixture
def file(tmp_path):
    def write(name, *rows):
        path = tmp_path / name
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in rows)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def task(train, test, **overrides):
    return Gsm8k(train=train, test=test, **(SETTINGS | overrides))


def test_files_are_read_in_order_and_answers_verified(file):
    train = file("train.jsonl", row("one?", "2*4=<<2*4=8>>8\n#### 1,234"), "", row("two?", "#### -2"))
    test = file("test.jsonl", row("three?", "#### $0.5"))
    gsm8k = task(train, test)
    problems = gsm8k.problems("train")
    assert [problem.reference for problem in problems] == ["1234", "-2"]
    assert problems[0].prompt == "one?\nEnd with #### and the number."
    half = gsm8k.problems("test")[0]
    assert half.reference == "0.5"
    texts = [r"so \boxed{1,234}", "#### 1234", "#### 2", "1234", "nothing"]
    verdicts = gsm8k.verify([problems[0]] * 5, texts)
    assert [verdict.status for verdict in verdicts] == ["right", "right", "wrong", "unparseable", "unparseable"]
    assert [verdict.reward for verdict in verdicts] == [1, 1, 0, 0, 0]
    texts = [
        "#### **1234**",
        "#### $1,234.00",
        "#### 1234 clips",
        "#### 1200+34",
        "#### 1234 or 1235",
        r"\boxed{1234} \boxed{",
    ]
    verdicts = gsm8k.verify([problems[0]] * 6, texts)
    assert [verdict.status for verdict in verdicts] == ["right"] * 3 + ["unsimplified", "wrong", "unparseable"]
    assert gsm8k.verify([problems[0]], [gsm8k.written(gsm8k.gold(problems[0]))])[0].correct
    (verdict,) = gsm8k.verify([half], [r"\boxed{\frac{1}{2}}"])
    assert verdict.correct
    gsm8k.close()


def test_a_tower_of_powers_is_not_worked_out_and_does_not_hold_the_others(file):
    gsm8k = task(file("train.jsonl", row("one?")), file("test.jsonl", row("two?")), timeout=3.0)
    problem = gsm8k.problems("train")[0]
    verdicts = gsm8k.verify([problem] * 3, [r"\boxed{9^{9^{9^{9}}}}", r"\boxed{7}", r"\boxed{14/2}"])
    assert [verdict.status for verdict in verdicts] == ["wrong", "right", "unsimplified"]
    gsm8k.close()


def test_json_and_csv_are_read_too(file):
    train = file("train.json", json.dumps([row("one?"), row("two?", "#### 3")]))
    test = file("test.csv", "question,answer", '"three, or more?","#### 9"')
    gsm8k = task(train, test)
    assert [problem.reference for problem in gsm8k.problems("train")] == ["7", "3"]
    assert gsm8k.problems("test")[0].prompt.startswith("three, or more?")


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("bad.jsonl", [row("1?"), {"question": "2?", "b": 3}], "line 2 of .* lacks answer; its columns are question, "),
        ("bad.csv", ["problem,key", "one?,7"], "line 2 of .* lacks question and answer; its columns are problem, key"),
        ("bad.jsonl", [], "is empty"),
        ("bad.jsonl", [row("one?"), row("two?", "#### many")], "line 2 of .* ends in '#### many'"),
        ("bad.jsonl", [row("one?", "7")], "line 1 of .* where #### and a number must stand"),
        ("bad.jsonl", [row("one?"), "{"], "line 2 of .* is no JSON record"),
        ("bad.jsonl", ["[1]"], r"line 1 of .* is \[1\]"),
        ("bad.txt", ["one?"], "does not end in .jsonl, .json, .csv or .parquet"),
    ],
)
def test_data_that_cannot_be_used_is_refused_with_its_place(file, name, rows, message):
    good = file("good.jsonl", row("good?"))
    bad = file(name, *rows)
    with pytest.raises(ValueError, match=message):
        task(bad, good)
    with pytest.raises(ValueError, match=message):
        task(good, bad)


def test_a_missing_file_a_shared_question_and_a_wrong_template_are_refused(file):
    one, same = file("one.jsonl", row("one?"), row("two?")), file("same.jsonl", row("two?"))
    with pytest.raises(ValueError, match=r"task.test=nowhere\.jsonl is not a file"):
        task(one, "nowhere.jsonl")
    with pytest.raises(ValueError, match="share 1 questions"):
        task(one, same)
    with pytest.raises(ValueError, match=r"must contain \{question\}"):
        task(one, same, template="Q:")
    with pytest.raises(ValueError, match=r"task\.strictness=lax is none of strict, math_verify, minerva, dapo"):
        task(one, file("other.jsonl", row("three?")), strictness="lax")
    with pytest.raises(ValueError, match=r"task\.timeout=0 lets"):
        task(one, file("other.jsonl", row("three?")), timeout=0)


@pytest.mark.skipif(not DATA.is_dir(), reason="the published GSM8K files are not beside this repository")
@pytest.mark.slow
def test_the_published_files_are_read_whole_and_their_own_answers_are_right():
    gsm8k = task(str(DATA / "train.jsonl"), str(DATA / "test.jsonl"))
    assert (len(gsm8k.problems("train")), len(gsm8k.problems("test"))) == (7473, 1319)
    rows = [json.loads(line) for line in (DATA / "test.jsonl").read_text().splitlines()]
    verdicts = gsm8k.verify(gsm8k.problems("test"), [row["answer"] for row in rows])
    assert all(verdict.correct for verdict in verdicts)
    gsm8k.close()


def test_the_last_training_problems_are_held_out_to_validate_on(file):
    train = file("train.jsonl", *(row(f"{i}?", f"#### {i}") for i in range(5)))
    test = file("test.jsonl", row("test?", "#### 9"))
    gsm8k = task(train, test, validation=2)
    assert [problem.reference for problem in gsm8k.problems("train")] == ["0", "1", "2"]
    assert [problem.reference for problem in gsm8k.problems("validation")] == ["3", "4"]
    with pytest.raises(ValueError, match=r"task.validation=5 must lie between 0 and 4"):
        task(train, test, validation=5)
    with pytest.raises(
        ValueError, match=r"task.validation=0 holds no training problem out to validate on; 500 would do"
    ):
        task(train, test).problems("validation")


def test_near_copies_of_test_problems_are_left_out_of_training_where_that_is_asked_for(file):
    told = "Ann has 12 eggs in a basket and gives each of her friends two of them; how many has {} left?"
    train, test = file("train.jsonl", row(told.format("she")), row("one?")), file("test.jsonl", row(told.format("Ann")))
    assert len(task(train, test).problems("train")) == 2
    assert [problem.prompt[:4] for problem in task(train, test, drop_near=True).problems("train")] == ["one?"]
