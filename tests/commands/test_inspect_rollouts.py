"""Saved rollouts go through an algorithm without a model, and come out as in the run that wrote them."""

import csv
import json
import re
import shlex
from pathlib import Path

import pytest

from isentropic.commands.inspect_rollouts import inspect
from isentropic.config.build import BadInput
from isentropic.config.compose import compose, loader_of
from isentropic.config.entry import CONFIGS
from isentropic.reporting.render.tokens import load

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = f"rollouts={DOCS / 'rollouts.jsonl'}"


@pytest.fixture
def look(tmp_path):
    def run(*overrides):
        cfg = compose(loader_of(CONFIGS), "inspect", [*overrides, f"paths.output={tmp_path}"])
        inspect.__wrapped__.__wrapped__(cfg)
        return json.loads((tmp_path / "inspect.json").read_text())

    return run


@pytest.mark.golden
@pytest.mark.parametrize(
    "overrides, loss",
    [
        (["algorithm=dapo"], 0.430950),
        (["algorithm=grpo", "algorithm.clipping.ceiling=inf"], 0.636688),
        (["algorithm=stare", "algorithm.control.target=1.2"], 0.425795),
        (["algorithm=stare", "entropy=0.2"], 0.425795),
        (["algorithm=stare"], 0.430950),
    ],
)
def test_the_example_of_the_docs_has_its_losses(look, capsys, overrides, loss):
    found = look(EXAMPLE, *overrides)
    assert found["loss"] == pytest.approx(loss, abs=2e-6)
    assert capsys.readouterr().out.splitlines()[-1] == f"loss {loss:.6f}"


def test_every_token_is_printed_and_written(look, capsys, tmp_path):
    found = look(EXAMPLE, "algorithm=stare_c2", "algorithm.control.target=1.2")
    with (tmp_path / "tokens.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(found["tokens"]) == 14
    assert {name: str("" if value is None else value) for name, value in found["tokens"][8].items()} == rows[8]
    assert (rows[8]["completion"], rows[8]["place"], rows[8]["clipped"]) == ("2", "4", "ceiling")
    assert rows[8]["quadrant"] == "negative_surprising" and float(rows[8]["weight"]) == pytest.approx(0.9)
    printed = capsys.readouterr().out
    assert printed.count("negative surprising  ") == 2 and "ceiling" in printed
    assert "stare: scaled 2, dropped 0, tied 0, smallest weight 0.9, largest weight 1.1" in printed
    assert found["reads"]["credit stare"] == ["drive.up", "drive.up_blamed", "now.logp"]


def test_a_long_file_is_cut_on_the_screen_only(look, capsys, tmp_path):
    look(EXAMPLE, "algorithm=grpo", "shown=5")
    assert "9 more tokens are in tokens.csv; shown=14 prints all" in capsys.readouterr().out
    assert len((tmp_path / "tokens.csv").read_text().splitlines()) == 15


def test_a_run_s_samples_give_the_credit_that_the_run_gave(look, short):
    samples = [json.loads(line) for line in (short / "samples.jsonl").read_text().splitlines()]
    found = look(f"rollouts={short}", "algorithm=grpo")
    assert found["step"] == samples[-1]["step"]
    credit = [row["credit"] for row in found["tokens"]]
    assert credit == pytest.approx([value for line in samples for value in line["advantages"]], abs=1e-5)
    assert found["metrics"]["sampler/ess"] == pytest.approx(1, abs=1e-4)
    assert isinstance(found["metrics"]["entropy/predicted_change"], float)


def test_one_answer_under_several_methods_is_one_page(look, capsys, tmp_path):
    page = f"html={tmp_path / 'answers.html'}"
    look(EXAMPLE, "algorithm=grpo", page, "method=grpo")
    look(EXAMPLE, "algorithm=stare_c2", "algorithm.control.target=1.2", page, "method=stare")
    assert f"token page: {tmp_path / 'answers.html'}" in capsys.readouterr().out
    grpo, stare = load(tmp_path / "answers.html")
    assert (grpo.name, stare.name, len(grpo.answers)) == ("grpo", "stare", 4)
    assert grpo.answers[0]["weight"] == 1 and grpo.answers[0]["touched"] == {}
    touched = [one["touched"]["stare"] for one in stare.answers]
    assert touched == [[], [3], [2], []], "the two that it says it scaled"
    for one, places in zip(stare.answers, touched, strict=True):
        weight = one["weight"] if isinstance(one["weight"], list) else [one["weight"]] * len(one["texts"])
        assert [place for place, value in enumerate(weight) if value != 1] == places
    assert stare.answers[1]["clipped"]["ceiling"] == [3], "as in tokens.csv"
    assert stare.answers[0]["surprisal"] == pytest.approx([0.1054, 6.725, 0.6931, 1.204, 0.2231])


def test_a_page_that_is_something_else_is_not_written_over(look, tmp_path):
    (tmp_path / "notes.html").write_text("notes")
    with pytest.raises(BadInput, match=r"html: .*notes\.html is there and no page of tokens"):
        look(EXAMPLE, "algorithm=grpo", f"html={tmp_path / 'notes.html'}", "method=grpo")


def test_what_the_file_does_not_say_but_a_part_reads_is_named(look, tmp_path):
    line = json.loads((DOCS / "rollouts.jsonl").read_text().splitlines()[0])
    (tmp_path / "no_entropy.json").write_text(json.dumps(line | {"new_entropy": None, "entropy": [None] * 5}))
    with pytest.raises(BadInput, match=r"penalty entropy_bonus reads entropy, which .* does not give on 5 of 5 tokens"):
        look(f"rollouts={tmp_path / 'no_entropy.json'}", "algorithm=grpo", "algorithm/penalty=[entropy_bonus]")


def test_a_wrong_file_is_one_sentence(look, tmp_path):
    (tmp_path / "bad.json").write_text("[{}]")
    with pytest.raises(BadInput, match=r"rollouts: .*completion 1 lacks logp; each completion needs"):
        look(f"rollouts={tmp_path / 'bad.json'}")


def test_the_commands_of_the_page_print_what_it_says(look, capsys, monkeypatch):
    monkeypatch.chdir(DOCS.parent)
    page = (DOCS / "inspect.md").read_text()
    commands = re.findall(r"^isentropic inspect (.*?)(?: +# (.*))?$", page, re.M)
    assert len(commands) >= 3
    for arguments, promised in commands:
        if "FILE" not in arguments and "logs/" not in arguments:
            look(*shlex.split(arguments))
            assert promised in capsys.readouterr().out


def test_what_was_observed_between_turns_is_shown_as_such(look, tmp_path, answer):
    lines = [answer(turn=[0, 1, 1], observed=[[1, "24;"]]), answer(reward=0.0, correct=False)]
    (tmp_path / "turns.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = tmp_path / "page.html"
    seen = look("algorithm=grpo", f"rollouts={tmp_path / 'turns.jsonl'}", f"html={page}", "method=mine")
    assert [(row["token"], row["turn"], row["observed"]) for row in seen["tokens"][:3]] == [
        ("a", 0, ""), ("b", 1, "24;"), ("c", 1, ""),
    ]  # fmt: skip
    shown = load(page)[0].answers
    assert [one["observed"] for one in shown] == [[[1, "24;"]], []] and shown[0]["completion"] == "a24;bc"
