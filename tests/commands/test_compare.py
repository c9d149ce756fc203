import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from fixtures.evaluations import flags

from isentropic.commands.compare import main

DECODING = {"temperature": 1.0, "top_p": 0.7, "max_tokens": 3072}


@pytest.fixture
def two(tmp_path, an_evaluation):
    """Writes an evaluation into a folder of a name, with how it was decoded."""

    def write(name, sets, change=lambda one: one, strictness="strict", grading=(), tasks=None, **decoding):
        folder = an_evaluation(tmp_path / name, sets, change)
        exam = {"sets": list(sets), "count": 4, "decoding": DECODING | decoding}
        config = {
            "evaluation": {"protocol": {"exams": {"all": exam}}},
            "rule": {"strictness": strictness, "workers": name},
            "grading": list(grading),
            "tasks": tasks or {},
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        return str(folder)

    return write


def refused(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1
    return said


def test_what_differs_is_said_and_kept(two, capsys):
    first = two("a", {"aime": flags([4] * 8, 4), "amc": flags([1, 2], 4)})
    main([first, two("b", {"amc": flags([1, 2], 4), "aime": flags([0] * 8, 4)})])
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(
        "aime: the first is higher than the second: 1.000 and 0.000, difference +1.000 [+1.000, +1.000] over 8"
        " problems, p = 0.016 after Holm (signs, all 256 patterns)"
    )
    assert said[1].startswith("amc: they cannot be told apart: ")
    kept = json.loads((Path(first) / "compare.json").read_text())
    assert [one["set"] for one in kept["sets"]] == ["aime", "amc"] and kept["first"] == first


def test_one_set_can_be_compared_alone(two, tmp_path, capsys):
    first, second = two("a", {"aime": flags([1], 2)}), two("b", {"aime": flags([2], 2), "amc": flags([1], 2)})
    assert "cannot be compared: only the second has amc" in refused([first, second], capsys)
    main([first, second, "--sets", "aime", "--out", str(tmp_path / "out.json")])
    assert "one problem has no interval" in capsys.readouterr().out and (tmp_path / "out.json").is_file()
    assert "has no set gsm8k; it has aime" in refused([first, second, "--sets", "gsm8k"], capsys)


def test_what_is_no_comparison_is_not_written_over(two, tmp_path, capsys):
    first, second = two("a", {"aime": flags([1, 1], 2)}), two("b", {"aime": flags([2, 2], 2)})
    for name in ("answers.jsonl", "config.yaml"):
        kept = (Path(second) / name).read_bytes()
        assert f"{name} is there, and holds something else" in refused(
            [first, second, "--out", f"{second}/{name}"], capsys
        )
        assert (Path(second) / name).read_bytes() == kept
    assert "is there, and holds something else" in refused([first, second, "--out", str(tmp_path)], capsys)
    for _ in range(2):
        main([first, second, "--out", f"{second}/compare.json"])


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            {"sets": {"aime": flags([1, 1, 1], 2)}},
            "aime has 0 problems that only the first was asked, and 1 that only the",
        ),
        ({"temperature": 0.7}, "decoding of aime.temperature is 1.0 and 0.7"),
        ({"grading": ["graders.math.strictness=dapo"]}, "graders.math.strictness is null and dapo"),
        (
            {"change": lambda one: replace(one, verdicts={"dapo": True}, statuses={"dapo": "right"})},
            "aime is judged by math and by dapo",
        ),
    ],
)
def test_what_cannot_be_compared_is_listed(two, capsys, other, said):
    first = two("a", {"aime": flags([1, 1], 2)})
    second = two("b", **({"sets": {"aime": flags([1, 1], 2)}} | other))
    assert said in refused([first, second], capsys)


def by_the_task(one):
    return replace(one, verdicts={"task": True}, statuses={"task": "right"})


def test_how_the_grader_that_decides_is_set_counts_and_no_other(two, capsys):
    sets = {"aime": flags([1, 1], 2)}
    first = two("a", sets)
    main([first, two("b", sets, strictness="dapo", grading=["graders.math.workers=2", "graders.stare.closed=true"])])
    capsys.readouterr()
    first, second = two("c", sets, by_the_task), two("d", sets, by_the_task, strictness="dapo")
    assert "rule.strictness is strict and dapo" in refused([first, second], capsys)
    tasks = [{"aime": {"strictness": how, "workers": how, "seed": how}} for how in ("strict", "minerva")]
    first, second = (two(str(i), sets, by_the_task, tasks=one) for i, one in enumerate(tasks))
    said = refused([first, second], capsys)
    assert said.endswith("cannot be compared: tasks.aime.strictness is strict and minerva\n")


def test_other_golds_are_not_compared(two, capsys):
    first, second = two("a", {"aime": flags([1, 1], 2)}), two("b", {"aime": flags([1, 1], 2)})
    file = Path(second) / "problems.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[1]["gold"] = "7"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = refused([first, second], capsys)
    assert "aime has other golds for 1 of 2 problems, the first in row 1: 1 and 7" in said


def test_all_that_differs_is_listed_at_once(two, capsys):
    first = two("a", {"aime": flags([1, 1], 2), "amc": flags([1], 2)})
    said = refused([first, two("b", {"aime": flags([1], 2)}, temperature=0.7, grading=["graders.math.x=1"])], capsys)
    for one in ("only the first has amc", "aime has 1 problems that only the first", "aime.temperature", "math.x"):
        assert one in said


def test_other_prompts_are_not_compared(two, capsys):
    first, second = two("a", {"aime": flags([1, 1], 2)}), two("b", {"aime": flags([1, 1], 2)})
    file = Path(second) / "problems.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[1]["prompt_hash"] = "0" * 16
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "aime has other prompts for 1 of 2 problems, the first in row 1" in refused([first, second], capsys)


def test_a_folder_that_is_no_evaluation_is_named(two, tmp_path, capsys):
    assert "is not the folder of an evaluation" in refused([two("a", {"aime": flags([1], 2)}), str(tmp_path)], capsys)


def test_what_does_not_tell_how_it_was_decoded_is_not_compared(two, capsys):
    first, second = two("a", {"aime": flags([1, 1], 2)}), two("b", {"aime": flags([1, 1], 2)})
    (Path(second) / "config.yaml").write_text("{}")
    assert "the config.yaml of the second does not tell how aime was decoded" in refused([first, second], capsys)
    (Path(second) / "config.yaml").unlink()
    assert "cannot be read, and without it nothing says how" in refused([first, second], capsys)


def test_how_answers_were_asked_for_counts_before_what_the_protocol_says(two, capsys):
    first, second = two("a", {"aime": flags([1, 1], 2)}), two("b", {"aime": flags([1, 1], 2)})
    file = Path(second) / "config.yaml"
    asked = {"aime": {"decoding": {"temperature": 1.0, "top_p": 0.7, "max_tokens": 2000}}}
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"asked": asked}))
    assert "decoding of aime.max_tokens is 3072 and 2000" in refused([first, second], capsys)
