"""What an evaluation keeps comes back as it was, also after a kill in the middle of a line."""

import json
from dataclasses import asdict, replace

import pytest

from isentropic.evaluation.answers import (
    ANSWERS,
    Answered,
    Asked,
    add,
    read_answers,
    read_problems,
    write_problems,
)

ONE = Answered("aime24", "00ff", 0, 7, "x\u2028 = \\boxed{25}\n", 9, "stop", "25", {"a": True}, {"a": "right"}, 0.5)


def test_answers_and_problems_come_back(tmp_path):
    asked = [Asked("aime24", "00ff", 0, "What\u2028 is x?", "025", "<|user|>What", "ab", 4)]
    add(tmp_path, [ONE])
    add(tmp_path, [replace(ONE, child=1, verdicts={"a": False}, statuses={"a": "wrong"})])
    write_problems(tmp_path, asked)
    assert [one.right for one in read_answers(tmp_path)] == [True, False]
    assert read_answers(tmp_path)[0] == ONE
    assert read_problems(tmp_path) == asked


def test_half_a_pair_of_surrogates_comes_back(tmp_path):
    add(tmp_path, [replace(ONE, text="\ud83d")])
    assert read_answers(tmp_path)[0].text == "\ud83d"


@pytest.mark.parametrize("kept", [1, 40, -1])
def test_a_half_line_at_the_end_is_cut_off(tmp_path, kept):
    add(tmp_path, [ONE])
    whole = (tmp_path / ANSWERS).read_bytes()
    with (tmp_path / ANSWERS).open("ab") as file:
        file.write(whole[:kept])
    assert read_answers(tmp_path) == [ONE]
    assert (tmp_path / ANSWERS).read_bytes() == whole
    add(tmp_path, [replace(ONE, child=1)])
    assert len(read_answers(tmp_path)) == 2


def test_an_answer_that_stands_twice_counts_once(tmp_path):
    add(tmp_path, [ONE, replace(ONE, text="later")])
    assert read_answers(tmp_path) == [ONE]


@pytest.mark.parametrize(
    "change",
    [
        None,
        {"text": None},
        {"child": "0"},
        {"verdicts": {}, "statuses": {}},
        {"verdicts": []},
        {"statuses": {"b": "right"}},
    ],
)
def test_a_line_in_the_middle_that_is_no_answer_is_named(tmp_path, change):
    add(tmp_path, [ONE])
    line = '{"set": 1}' if change is None else json.dumps(asdict(ONE) | change)
    with (tmp_path / ANSWERS).open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(ValueError, match=r"line 2 of .* is no answer"):
        read_answers(tmp_path)


def test_a_line_that_is_no_problem_is_named(tmp_path):
    write_problems(tmp_path, [Asked("aime24", "00ff", 0, "What is x?", "025", "<|user|>What", "ab", 4)])
    file = tmp_path / "problems.jsonl"
    file.write_text(file.read_text() + '{"set": "aime2')
    with pytest.raises(
        ValueError, match=r"line 2 of .*problems.jsonl is no problem of an evaluation: '\{\"set\": \"aime2'"
    ):
        read_problems(tmp_path)


def test_a_folder_without_problems_is_none_of_an_evaluation(tmp_path):
    with pytest.raises(ValueError, match="not the folder of an evaluation"):
        read_problems(tmp_path)
