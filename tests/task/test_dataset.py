import csv
import json

import pytest

from isentropic.task.audit import unearnable
from isentropic.task.dataset import Dataset

SETTINGS = {
    "weights": None, "test": None, "subset": None, "split": "train", "test_split": "test", "split_column": None,
    "held_out": 0.0, "question": "question", "answer": "answer", "answer_marker": "", "system": None, "longest": None,
    "template": "{question}", "marker": "Answer:", "bad_answers": "drop", "strictness": "strict",
    "judge": "isentropic.task.math_judge:judge",
    "workers": 1, "timeout": 30.0, "memory": 4.0,
}  # fmt: skip
ROWS = [{"question": f"How much is {i} and {i} again?", "answer": str(2 * i), "level": i % 5} for i in range(200)]


@pytest.fixture
def file(tmp_path):
    def write(name, rows):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        if path.suffix == ".jsonl":
            path.write_text("\n".join(map(json.dumps, rows)))
        elif path.suffix == ".json":
            path.write_text(json.dumps(rows))
        elif path.suffix == ".csv":
            with path.open("w", newline="") as lines:
                writer = csv.DictWriter(lines, rows[0])
                writer.writeheader()
                writer.writerows(rows)
        else:
            pyarrow = pytest.importorskip("pyarrow")
            pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), path)
        return str(path)

    return write


def task(path, **settings):
    return Dataset(path=path, **(SETTINGS | settings))


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
def test_any_kind_of_file_is_read_with_all_its_columns(file, kind):
    first, *_, last = task(file(f"mine.{kind}", ROWS)).problems("train")
    assert (first.prompt, first.reference) == ("How much is 0 and 0 again?", "0")
    assert {key: str(value) for key, value in last.columns.items()} == {k: str(v) for k, v in ROWS[-1].items()}


def test_a_folder_is_all_its_files(file, tmp_path):
    file("many/b.jsonl", ROWS[100:])
    file("many/deep/a.csv", ROWS[:100])
    (tmp_path / "many" / "README.md").write_text("about")
    file("many/.cache/c.jsonl", [{"other": "columns"}])
    file("many/.b.jsonl", [{"other": "columns"}])
    assert {p.prompt for p in task(str(tmp_path / "many")).problems("train")} == {row["question"] for row in ROWS}
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"task\.path=.*empty is a folder without any \.jsonl, \.json, \.csv or"):
        task(str(tmp_path / "empty"))


def test_a_share_is_held_out_by_the_text_alone(file):
    held = task(file("a.jsonl", ROWS), held_out=0.4)
    sizes = {split: len(held.problems(split)) for split in ("train", "validation", "test")}
    assert sum(sizes.values()) == 200 and 20 < sizes["validation"] < 60 and 20 < sizes["test"] < 60
    again = task(file("b.jsonl", ROWS[::-1]), held_out=0.4)
    for split in sizes:
        assert {p.prompt for p in again.problems(split)} == {p.prompt for p in held.problems(split)}
    beside = task(file("a.jsonl", ROWS), held_out=0.4, test=file("c.jsonl", ROWS[:10]))
    assert [p.reference for p in beside.problems("test")] == [row["answer"] for row in ROWS[:10]]
    assert not {p.id for p in beside.problems("train")} & {p.id for p in beside.problems("test")}
    with pytest.raises(ValueError, match=r"leaves no validation problem; raise task\.held_out=0\.0"):
        task(file("a.jsonl", ROWS)).problems("validation")


def test_a_column_may_say_the_split(file):
    names = ["train", "Train", "valid", "test"]
    rows = [row | {"part": names[i % 4]} for i, row in enumerate(ROWS)]
    split = task(file("a.jsonl", rows), split_column="part")
    assert [len(split.problems(one)) for one in ("train", "validation", "test")] == [100, 50, 50]
    rows[17]["part"] = "holdout"
    with pytest.raises(ValueError, match=r"line 18 of task\.path=.* has 'holdout' in part, which is none of train, "):
        task(file("a.jsonl", rows), split_column="part")


def test_chats_keep_what_stands_before_the_question(file):
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One and one?"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": [{"type": "text", "text": "Two and two?"}]},
        {"role": "assistant", "content": "4"},
    ]
    columns = {"question": "prompt", "answer": "gold"}
    (problem,) = task(file("a.jsonl", [{"prompt": chat, "gold": "4"}]), **columns).problems("train")
    assert problem.prompt == "Two and two?"
    assert [m["content"] for m in problem.before] == ["Be brief.", "One and one?", "2"]
    other = task(file("b.jsonl", [{"prompt": chat[3:], "gold": "4"}]), **columns)
    assert other.problems("train")[0].before == () and other.problems("train")[0].id != problem.id
    with_system = task(file("c.jsonl", [ROWS[1] | {"role": "Think."}]), system="role").problems("train")[0]
    assert with_system.before == ({"role": "system", "content": "Think."},)
    with pytest.raises(ValueError, match=r"line 1 of task\.path=.* has a chat in which the user says nothing"):
        task(file("d.jsonl", [{"prompt": chat[:1], "gold": "4"}]), **columns)


def test_sets_are_mixed_by_weight_and_each_problem_comes(file):
    small, large = file("small.jsonl", ROWS[:20]), file("large.jsonl", ROWS[20:120])
    asked = [p.prompt for p in task([small, large], weights=[1.0, 1.0]).problems("train")]
    of_small = {row["question"] for row in ROWS[:20]}
    assert len(asked) == 200 and len(set(asked)) == 120
    assert sum(prompt in of_small for prompt in asked[:40]) == 20  # also of the first few
    plain = [p.prompt for p in task([small, large]).problems("train")]
    assert plain == [row["question"] for row in ROWS[:120]]
    for weights, message in (
        ([1.0], "has 1 numbers for 2 sets"),
        ([1.0, 0.0], "must be finite and above 0"),
        ([1.0, 1e9], "so far apart"),
        ([1.0, float("inf")], "must be finite and above 0"),
        ([1.0, float("nan")], "must be finite and above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            task([small, large], weights=weights)


@pytest.mark.parametrize(
    ("row", "settings", "message"),
    [
        ({"question": None}, {}, r"line 17 of task\.path=.*lacks question; its columns are .*; task\.question names"),
        ({"answer": None}, {}, r"line 17 of task\.path=.*lacks answer; its columns are .*; task\.answer names another"),
        ({}, {"question": "prompt"}, r"line 1 of task\.path=.*lacks prompt; its columns are question, answer, level"),
        ({}, {"answer_marker": "####"}, r"line 1 of task\.path=.* has no answer after '####' in '0'"),
        ({}, {"template": "Solve."}, r"task\.template='Solve\.' has no place for the question"),
        ({}, {"judge": "mine"}, r"task\.judge=mine is not module:function"),
        ({}, {"longest": 0}, r"task\.longest=0 leaves every question out; it must be at least 1"),
        (
            {"answer": {"value": 7}},
            {},
            r"line 17 of task\.path=.* has {'value': 7} as its answer, where a text, a number",
        ),
        (
            {},
            {"question": "question.text"},
            r"line 1 of .* has 'How much is 0 and 0 again\?' where text of question\.text",
        ),
        (
            {"question": [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"}]},
            {"system": "level"},
            r"line 17 of task\.path=.* brings a system message of its own, beside task\.system=level",
        ),
        ({}, {"longest": 3}, r"leaves nothing to learn from: 200 rows, of which 200 are not held out, and none is new"),
        ({}, {"held_out": 1.0}, r"task\.held_out=1\.0 is no share"),
        ({}, {"test": ""}, r"task\.test= names nothing; give a file"),
        ({}, {"test": "a" * 5_000}, r"task\.test=a+ is no path that can be read: File name too long"),
        ({}, {"test": "~nobody_here/a.jsonl"}, r"task\.test=~nobody_here/a\.jsonl is no path that can be read"),
        (
            {"question": [{"role": "user", "content": [{"type": "text", "text": "?"}, {"type": "image", "url": "a"}]}]},
            {},
            r"line 17 of task\.path=.* has a message with \[{'type': 'image', 'url': 'a'}\], where a text must be",
        ),
        (
            {"question": [{"role": "user", "content": {"text": "?"}}]},
            {},
            r"line 17 of .* has a message with \[{'text': '\?'}\], where a text must be: nothing else is asked",
        ),
        (
            {"question": [{"role": "assistant", "content": "", "tool_calls": [7]}, {"role": "user", "content": "?"}]},
            {},
            r"line 17 of .* has a message with \[7\], where a text must be",
        ),
        ({"answer": [None]}, {}, r"line 17 of .* has \[None\] as its answer, where a text, a number or a list of them"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_with_its_place(file, row, settings, message):
    rows = [one | row if i == 16 else one for i, one in enumerate(ROWS)]
    with pytest.raises(ValueError, match=message):
        task(file("a.jsonl", rows), **settings)


@pytest.mark.slow
def test_a_judge_of_ones_own_stands_in_the_folder_of_the_run_or_is_refused_in_a_sentence(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = "def same(gold, text, marker):\n    return 1.0, True, 'right'\n\ndef one(gold, text, marker):\n    return 1\n"
    (tmp_path / "my_judges.py").write_text(own)
    path = file("a.jsonl", ROWS)
    good = task(path, judge="my_judges:same")
    good.check()
    assert good.verify(good.problems("train")[:1], ["?"])[0].correct
    good.close()
    with pytest.raises(
        ValueError, match=r"task\.judge=my_judges:one raises, or gives no \(reward, correct, status\), for"
    ):
        task(path, judge="my_judges:one").check()
    for name in ("my_judges:nothing", "nowhere:same"):
        with pytest.raises(ValueError, match=rf"task\.judge={name} cannot be loaded, as the message above says"):
            task(path, judge=name).check()


def test_without_answers_nothing_is_right(file):
    alone = task(file("a.jsonl", ROWS), answer=None)
    assert not alone.verifies and alone.problems("train")[3].reference is None
    assert [v.reward for v in alone.verify(alone.problems("train")[:2], ["0", r"\boxed{2}"])] == [0, 0]


@pytest.mark.slow
def test_answers_that_would_not_be_judged_right_are_left_out(file):
    rows = [*ROWS[:10], {"question": "How long is it, in all?", "answer": "}"}]
    dropped = task(file("a.jsonl", rows))
    with pytest.warns(UserWarning, match=r"1 of 11 train answers are not judged right even .* left out"):
        dropped.check()
    assert [p.reference for p in dropped.problems("train")] == [row["answer"] for row in rows[:10]]
    refused = task(file("a.jsonl", rows), bad_answers="refuse")
    with pytest.raises(ValueError, match=r"\('\}'\); mend them, or leave them out with task\.bad_answers=drop"):
        refused.check()
    assert [v.correct for v in dropped.verify(dropped.problems("train")[4:6], [r"so \boxed{8}", "Answer: 7"])] == [
        True,
        False,
    ]
    dropped.close()
    refused.close()


def test_an_answer_that_is_written_as_the_task_asks_earns(file):
    made = task(file("a.jsonl", ROWS), held_out=0.5)
    problems = made.problems("train")[:8]
    assert unearnable(made, problems) == [] and made.markers() == ["Answer:"]
    assert made.verify(problems[:1], [made.written(made.gold(problems[0]))])[0].correct
    made.close()


def test_a_test_question_of_an_earlier_turn_is_left_out_of_training(file):
    rows = [{"question": row["question"], "answer": row["answer"]} for row in ROWS[:4]]
    chat = [{"role": "user", "content": ROWS[0]["question"]}, {"role": "assistant", "content": "1"}]
    asked = {"question": [*chat, {"role": "user", "content": "Are you sure?"}], "answer": "0"}
    found = task(file("a.jsonl", [*rows[1:], asked]), test=file("b.jsonl", rows[:1])).problems("train")
    assert [problem.prompt for problem in found] == [row["question"] for row in rows[1:]]


def test_near_copies_of_test_problems_are_left_out_of_training_where_that_is_asked_for(file):
    told = "Let n be the number of ways to colour the squares of a board of 4 rows; find n {}"
    train = file("train.jsonl", [{"question": told.format("modulo 7"), "answer": "1"}, ROWS[0]])
    test = file("test.jsonl", [{"question": told.format("over 9"), "answer": "2"}])
    assert len(task(train, test=test).problems("train")) == 2
    assert [p.reference for p in task(train, test=test, drop_near=True).problems("train")] == ["0"]
