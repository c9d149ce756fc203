import json
from pathlib import Path

import pytest
from fixtures.evaluations import asked, flags

from isentropic.commands.contamination import main

DATA = Path(__file__).parents[3] / "shared" / "data"
FILES = {
    "amc23/test.jsonl": (40, 8, 25),
    "math500/test.jsonl": (500, 8, 27),
    "olympiadbench/test.jsonl": (675, 10, 69),
    "aime24/test.json": (30, 0, 0),
    "aime25/test.jsonl": (30, 0, 0),
}


def counts(tmp_path, train, tests):
    if not all((DATA / file).is_file() for file in (train, *tests)):
        pytest.skip(f"no data sets in {DATA}")
    main([f"train={DATA / train}", f"test=[{','.join(str(DATA / file) for file in tests)}]", f"out={tmp_path / 'x'}"])
    found = json.loads((tmp_path / "x").read_text())["sets"]
    return {name: (one["problems"], len(one["exact"]), len(one["near"])) for name, one in found.items()}


@pytest.mark.slow
@pytest.mark.golden
def test_the_test_sets_that_dapo_holds(tmp_path):
    assert counts(tmp_path, "dapo_math_17k/dapo_math_17k.parquet", list(FILES)) == FILES


@pytest.mark.slow
@pytest.mark.golden
def test_deepmath_holds_three_of_math500_and_gsm8k_one_of_its_own(tmp_path):
    found = counts(tmp_path, "deepmath_5k/math_deepmath_deal.jsonl", ["math500/test.jsonl"])
    assert found["math500/test.jsonl"] == (500, 0, 3)
    assert counts(tmp_path, "gsm8k/train.jsonl", ["gsm8k/test.jsonl"])["gsm8k/test.jsonl"] == (1319, 0, 1)


def test_of_an_evaluation_the_score_is_told_without_what_was_seen(tmp_path, an_evaluation, capsys):
    folder = an_evaluation(tmp_path / "eval", {"aime": flags([4, 0, 2], 4)})
    rows = [
        {"prompt": f"Think well. {asked('aime', 0).question} And be brief."},
        {"prompt": "Nothing of the kind here"},
    ]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    main([f"train={tmp_path / 'train.jsonl'}", f"test={folder}"])
    said = capsys.readouterr().out
    assert "2 training problems of" in said and "translated or reworded copies are not found" in said
    assert "| aime | 3 | 0 | 1 | 1 | 1 | 0.500 | 0.250 | +0.250 [" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "train has no value; isentropic contamination train=dapo_math_17k test=aime24,math500 says what is"),
        (["train=nowhere", "test=aime24"], "train=nowhere is neither a file nor a set; the sets are aime24"),
        (["train={tmp}/a.jsonl", "test={tmp}/a.jsonl"], "train={tmp}/a.jsonl is not a file"),
        (["train={tmp}/b.jsonl", "test={tmp}/b.jsonl", "near=0.4"], "near"),
        (["train={tmp}/b.jsonl", "test={tmp}/b.jsonl"], "lacks question; its columns are text; question names another"),
        (["train={tmp}/b.jsonl", "test={tmp}/b.jsonl", "question=texts"], "lacks texts; its columns are text"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(tmp_path, capsys, arguments, said):
    (tmp_path / "b.jsonl").write_text('{"text": "x"}\n')
    with pytest.raises(SystemExit) as stopped:
        main([one.format(tmp=tmp_path) for one in arguments])
    written = capsys.readouterr().err
    assert stopped.value.code == 2 and said.format(tmp=tmp_path) in written and written.count("\n") == 1


def test_sets_are_named_and_read_as_their_settings_say(tmp_path, capsys):
    rows = [{"q": "How many eggs are left of 12?", "answer": "3"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    main(["train=gsm8k", "test=[aime24,amc23]", "train.gsm8k.question=q", f"train.gsm8k.path={tmp_path / 'a.jsonl'}",
          "train.gsm8k.marker=''", *(f"test.{name}.{key}" for name in ("aime24", "amc23")
          for key in ("question=q", f"path={tmp_path / 'a.jsonl'}"))])  # fmt: skip
    said = capsys.readouterr().out
    assert (
        "1 training problems of gsm8k" in said and "| aime24 | 1 | 1 | 0 | 1 | 1 |" in said and "| amc23 | 1 |" in said
    )


def test_files_and_runs_of_one_name_are_all_read(tmp_path, capsys):
    for place, question in (("a/f", "What is one and one?"), ("b/f", "What is two and two?")):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "x.jsonl").write_text(json.dumps({"question": question}) + "\n")
    one, two = (tmp_path / place / "f" / "x.jsonl" for place in "ab")
    main([f"train=[{one},{two},{one}]", f"test=[{one},{two}]"])
    said = capsys.readouterr().out
    assert f"2 training problems of f/x.jsonl, f/x.jsonl of {two}" in said
    assert "| f/x.jsonl | 1 | 1 |" in said and f"| f/x.jsonl of {two} | 1 | 1 |" in said


@pytest.mark.degenerate
def test_nothing_to_compare_with_is_said_and_no_set_is_told_twice(tmp_path, an_evaluation, capsys):
    first, second = (an_evaluation(tmp_path / name, {"aime": flags([4], 4)}) for name in "ab")
    (tmp_path / "x.jsonl").write_text(json.dumps({"question": "!?"}) + "\n")
    (tmp_path / "signs.jsonl").write_text(json.dumps({"question": "(...)"}) + "\n")
    (tmp_path / "empty.jsonl").write_text("\n")
    main([f"train={tmp_path / 'x.jsonl'}", f"test={tmp_path / 'signs.jsonl'}"])
    assert "| 1 | 0 | 0 | 0 | 0 |" in capsys.readouterr().out
    for test, train, said in (
        (first, "empty.jsonl", "empty.jsonl is empty; it must hold at least one problem"),
        (f"[{first},{second}]", "x.jsonl", "has the set aime once more; give evaluations of it one at a time"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main([f"train={tmp_path / train}", f"test={test}"])
        assert stopped.value.code == 2 and said in capsys.readouterr().err


def test_what_is_no_finding_is_not_written_over(tmp_path, capsys):
    file = tmp_path / "x.jsonl"
    file.write_text(json.dumps({"question": "What is one and one?"}) + "\n")
    with pytest.raises(SystemExit) as stopped:
        main([f"train={file}", f"test={file}", f"out={file}"])
    assert stopped.value.code == 2 and "is there, and holds something else" in capsys.readouterr().err
    for _ in range(2):
        main([f"train={file}", f"test={file}", f"out={tmp_path}/found.json"])
    assert json.loads((tmp_path / "found.json").read_text())["train"] and "one and one" in file.read_text()
