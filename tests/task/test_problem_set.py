"""The sets of configs/task/set, as files of `paths.data` and by the columns of other copies."""

import json
from pathlib import Path

import pytest

from isentropic.config.build import BadInput, build
from isentropic.config.compose import compose, loader_of
from isentropic.config.entry import CONFIGS
from isentropic.task.problem_set import ProblemSet

DATA = Path(__file__).parents[3] / "shared" / "data"
ROWS = {
    "aime24": 30, "aime25": 30, "amc23": 40, "math500": 500, "minerva": 272, "olympiad": 675, "gsm8k": 1319,
    "gsm8k_train": 7473, "svamp": 1000, "mawps": 1162, "deepmath_5k": 4994, "dapo_math_17k": 17917,
}  # fmt: skip
LARGE = {"gsm8k_train", "deepmath_5k", "dapo_math_17k"}
LOADER = loader_of(CONFIGS)
published = pytest.mark.skipif(not DATA.is_dir(), reason="the published data sets are not beside this repository")


def rows(name, data, *overrides):
    chosen = [f"task/set@task.test=[{name}]", "task/set@task.train=[]", f"paths.data={data}"]
    cfg = compose(LOADER, "train", ["task=math", *chosen, *overrides])
    return build(cfg, f"task.test.{name}").read(f"task.test.{name}")


def laid(folder, name, *records):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = json.dumps(records) if path.suffix == ".json" else "".join(json.dumps(one) + "\n" for one in records)
    path.write_text(whole, encoding="utf-8")
    return path


@published
@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.slow if one in LARGE else ()) for one in ROWS])
def test_every_published_set_is_read_whole_from_the_folder_of_the_data(name):
    if name == "dapo_math_17k":
        pytest.importorskip("pyarrow", reason="parquet is read by pyarrow")
    found = rows(name, DATA)
    assert len(found) == ROWS[name]
    assert all(row.question.strip() and row.answer.strip() for row in found)


@published
def test_golds_are_written_as_texts_are_compared():
    assert [row.answer for row in rows("aime24", DATA)][:2] == ["204", "25"]
    assert [row.answer for row in rows("amc23", DATA)][:2] == ["27", "36"]
    assert rows("aime25", DATA)[0].answer == "70"
    assert rows("minerva", DATA)[1].answer == "4.5e33"
    assert rows("gsm8k", DATA)[0].answer == "18"


@pytest.mark.parametrize(
    ("name", "file", "record", "question", "answer"),
    [
        ("aime24", "aime24/test.json", {"prompt": "p?", "answer": "025"}, "p?", "25"),
        ("aime24", "aime24/test.jsonl", {"problem": "p?", "answer": 33}, "p?", "33"),
        ("amc23", "amc23/test.jsonl", {"problem": "q?", "answer": 27.0}, "q?", "27"),
        ("amc23", "amc23/test.jsonl", {"question": "q?", "problem": "x", "answer": "1/2"}, "q?", "1/2"),
        ("minerva", "minerva_math/test.jsonl", {"problem": "m?", "solution": r"so \boxed{1e-5} m"}, "m?", "1e-5"),
        ("minerva", "minerva_math/test.jsonl", {"question": "m?", "answer": "2"}, "m?", "2"),
        ("olympiad", "olympiadbench/test.jsonl",
         {"context": "Let n > 1.", "question": "Is n?", "final_answer": ["3", "5"]}, "Let n > 1.\nIs n?", "3, 5"),
        ("olympiad", "olympiadbench/test.jsonl",
         {"context": None, "question": "n?", "final_answer": ["$2$"]}, "n?", "$2$"),
        ("olympiad", "olympiadbench/test.jsonl", {"question": "n?", "final_answer": ["1,3"]}, "n?", "1,3"),
        ("svamp", "svamp/test.jsonl", {"Body": "Ed has 3.", "Question": "How many?", "Answer": 3.0},
         "Ed has 3.\nHow many?", "3"),
        ("gsm8k", "gsm8k/test.jsonl", {"question": "g?", "answer": "2+2\n#### 1,004"}, "g?", "1,004"),
        ("dapo_math_17k", "dapo_math_17k/dapo_math_17k.jsonl",
         {"prompt": [{"role": "user", "content": "d?"}], "reward_model": {"ground_truth": "-3"}}, "d?", "-3"),
        ("dapo_math_17k", "dapo_math_17k/dapo_math_17k.jsonl", {"prompt": "d?", "solution": "34"}, "d?", "34"),
    ],
)  # fmt: skip
def test_a_set_is_read_by_the_columns_that_its_copies_have(tmp_path, name, file, record, question, answer):
    laid(tmp_path, file, record)
    (row,) = rows(name, tmp_path)
    assert (row.question, row.answer) == (question, answer)


def test_a_path_of_ones_own_comes_before_the_folder_of_the_data(tmp_path):
    laid(tmp_path, "aime24/test.json", {"prompt": "theirs?", "answer": "1"})
    own = laid(tmp_path, "own.jsonl", {"problem": "mine?", "answer": "2"})
    (row,) = rows("aime24", tmp_path, f"task.test.aime24.path={own}")
    assert (row.question, row.answer) == ("mine?", "2")


@pytest.mark.parametrize(
    ("name", "file", "record", "said"),
    [
        ("aime24", "aime24/test.json", {"q": "?", "answer": 1},
         r"item 1 of task\.test\.aime24\.file=.*aime24/test\.json lacks problem and prompt; its columns are q, answer; "
         r"task\.test\.aime24\.question names another"),
        ("math500", "math500/test.jsonl", {"problem": "?", "label": 1}, r"line 1 of .* lacks answer; its columns are"),
        ("minerva", "minerva_math/test.jsonl", {"problem": "?", "gold": 1}, r"lacks answer and solution; its columns"),
        ("svamp", "svamp/test.jsonl", {"Question": "?", "Answer": 1.0}, r"lacks Body; its columns are Question"),
        ("gsm8k", "gsm8k/test.jsonl", {"question": "?", "answer": "7"}, r"line 1 of .* has no answer after '####' in"),
        ("math500", "math500/test.jsonl", {"problem": "?", "answer": " "}, r"line 1 of .* has an empty answer"),
        ("amc23", "amc23/valid.jsonl", {"question": "?", "answer": 7},
         r"amc23/test\.jsonl is not there, nor one of \.jsonl, .*; its folder holds valid\.jsonl"),
        ("mawps", "other.jsonl", {}, r"task\.test\.mawps\.file=.*/mawps is not there; set paths\.data to the folder"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(tmp_path, name, file, record, said):
    laid(tmp_path, file, record)
    with pytest.raises(ValueError, match=said) as error:
        rows(name, tmp_path)
    assert "\n" not in str(error.value)


def test_a_set_that_is_neither_laid_nor_on_the_hub_says_where_it_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ValueError, match=r"task\.test\.math500\.path=HuggingFaceH4/MATH-500 reads .* from the hub"):
        rows("math500", tmp_path)
    with pytest.raises(ValueError, match=rf"{tmp_path}/math500/test\.jsonl is looked for \(paths\.data\)"):
        rows("math500", tmp_path)


def test_rows_of_one_file_are_read_by_the_same_columns(tmp_path):
    path = laid(tmp_path, "mixed.jsonl", {"problem": "a?", "answer": "1"}, {"problem": "b?", "solution": r"\boxed{2}"})
    mixed = ProblemSet(str(path), None, "test", "problem", ["answer", "solution"], "")
    with pytest.raises(ValueError, match=r"line 2 of .* lacks answer; its columns are problem, solution"):
        mixed.read("task.test.mixed")


def test_a_set_of_several_files_follows_their_names(tmp_path):
    laid(tmp_path, "mawps/b.jsonl", {"input": "two?", "target": 14.0})
    laid(tmp_path, "mawps/a.jsonl", {"input": "one?", "target": 39})
    assert [(row.question, row.answer) for row in rows("mawps", tmp_path)] == [("one?", "39"), ("two?", "14")]


def test_columns_of_a_wrong_kind_are_refused_before_anything_is_read(tmp_path):
    with pytest.raises(BadInput, match=r"task\.test\.aime24\.question=3 is not"):
        rows("aime24", tmp_path, "task.test.aime24.question=3")
