import json

import pytest
import yaml
from fixtures.evaluations import flags

from isentropic.evaluation.card import card_of

PROTOCOL = {
    "name": "stare",
    "source": "a script",
    "grade": "B",
    "says": None,
    "assumed": {"top_p": "as in training"},
    "exams": {"all": {"sets": ["aime", "amc"], "decoding": {"temperature": 1.0}}},
}


@pytest.fixture
def a_folder(an_evaluation, tmp_path):
    def write(name="a", right=(4, 0, 2), **protocol):
        folder = an_evaluation(tmp_path / name, {"aime": flags(right, 4), "amc": flags([1, 3], 4)})
        config = {"subject": f"models/{name}", "evaluation": {"protocol": PROTOCOL | protocol}}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        return folder

    return write


def test_a_card_holds_who_was_asked_what_and_how_it_went(a_folder):
    folder = a_folder()
    (folder / "versions.json").write_text(json.dumps({"weights": "abc", "libraries": {"torch": "2.13"}}))
    card = card_of(folder, command="isentropic eval subject=models/a evaluation/protocol=stare seed=1")
    assert (card["subject"], card["weights"], card["command"][-6:]) == ("models/a", "abc", "seed=1")
    assert card["protocol"]["assumed"] == {"top_p": "as in training"} and card["protocol"]["grade"] == "B"
    assert card["protocol"]["decoding"]["amc"] == {"temperature": 1.0}
    assert list(card["sets"]) == ["aime", "amc"] and card["mean"]["value"] == 0.5
    assert card["prompt"].startswith("<|user|>") and card["agreement"] is None
    assert card["answers"]["right"]["extracted"] == "1" and card["answers"]["cut"] is None


def test_the_command_is_made_of_the_settings_or_stays_what_it_was(a_folder):
    folder = a_folder()
    assert card_of(folder)["command"] == "isentropic eval subject=models/a evaluation/protocol=stare"
    (folder / "card.json").write_text(json.dumps({"command": "before"}))
    assert card_of(folder)["command"] == "before"


def test_the_difference_to_another_evaluation_or_why_there_is_none(a_folder):
    ours, theirs = a_folder("a"), a_folder("b", right=(0, 0, 2))
    found = card_of(ours, against=theirs)["against"]
    assert found["refused"] is None and [one["set"] for one in found["sets"]] == ["aime", "amc"]
    other = a_folder("c", exams={"all": {"sets": ["aime", "amc"], "decoding": {"temperature": 0.7}}})
    assert "decoding of aime.temperature is 1.0 and 0.7" in card_of(ours, against=other)["against"]["refused"]


def test_a_long_answer_is_shown_from_both_ends(a_folder):
    folder = a_folder()
    lines = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    lines[0]["text"] = "a" * 5_000 + "b" * 5_000
    (folder / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = card_of(folder)["answers"]["right"]["text"]
    assert text.startswith("aaa") and text.endswith("bbb") and "[… 6000 characters left out …]" in text
