import json
from dataclasses import replace

import pytest
import torch

from isentropic.callbacks.samples import Samples, between, number, numbers, one_or_all, texts
from isentropic.policy.batching.micro_batches import concat
from isentropic.policy.log_row import RolloutTrace


def test_whole_groups_are_written_with_what_their_tokens_were_worth(run, tmp_path):
    run([Samples(groups=1, every=2)], steps=4)
    lines = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert [(line["step"], line["prompt"], line["completion"]) for line in lines] == [
        (2, "hi", "j"), (2, "hi", "jk"), (4, "hi", "j"), (4, "hi", "jk"),
    ]  # fmt: skip
    assert lines[1] == {
        "step": 2, "prompt": "hi", "completion": "jk", "reward": 0.0, "correct": False, "truncated": False, "group": 3,
        "tokens": [9, 10], "texts": ["j", "k"], "logp": [-0.25, -0.25], "entropy": [0.3, 0.3],
        "sensitivity": [0.3, 0.3], "sampler_logp": [-0.5, -0.5], "ref_logp": None, "new_logp": [-0.2, -0.2],
        "new_entropy": [0.3, 0.3], "new_sensitivity": [0.3, 0.3], "estimate": [0.0, 0.0], "advantages": [0.0, 0.0],
        "weight": [1.0, 1.0], "ratio": [1.051271, 1.051271], "kept": [True, True],
        "limits": {"low": 0.8, "high": 1.28, "ceiling": 10.0}, "clipped": {"low": [], "high": [], "ceiling": []},
        "touched": {"threes": []},
    }  # fmt: skip


def learnt_twice_as_hard_and_gone_far(module):
    """As if a rule had doubled the first row's praise, and the policy had moved by more than the limit."""
    scored, credit, now, *rest = module.last_rollout
    first = (torch.arange(len(scored.mask)) == 0)[:, None] & scored.mask
    credit = credit.scale(1.0 + first.float())
    touched = {"double": first, "threes": scored.mask & (scored.tokens == 3)}
    module.last_rollout = RolloutTrace(scored, credit, replace(now, logp=now.logp + 0.5), *rest[:2], touched)


def test_tokens_that_a_rule_or_a_limit_acted_on_are_marked(run, tiny, tmp_path):
    module = tiny(
        during=lambda module: module.last_rollout.batch.reward.any() and learnt_twice_as_hard_and_gone_far(module)
    )
    module.learn = [slice(2, 4), slice(0, 2)]
    run([Samples(groups=1, every=1)], steps=1, module=module)
    first, second = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert first["estimate"] == [1.0, 1.0] and first["advantages"] == first["weight"] == [2.0, 2.0]
    assert first["kept"] == [True, False] and first["touched"] == {"double": [0, 1], "threes": [1]}
    assert first["clipped"] == {"low": [], "high": [0], "ceiling": []}, "what was dropped is not clipped"
    assert second["weight"] == [1.0] * 3 and second["touched"] == {"double": [], "threes": []}
    assert second["clipped"] == {"low": [], "high": [], "ceiling": []}, "nothing is learnt from an advantage of zero"


class Bytes:
    """Two of the three tokens of a character, and a word that the tokenizer joins by a space."""

    def decode(self, tokens):
        return b"".join({0: b"\xe2", 1: b"\x88", 2: b"\x9a", 3: b"x", 4: b"<b>"}[t] for t in tokens).decode(
            errors="replace"
        )


@pytest.mark.parametrize(
    "tokens, expected",
    [
        ([3, 4, 3], ["x", "<b>", "x"]),
        ([3, 0, 1, 2, 3], ["x", "", "", "√", "x"]),
        ([0, 1, 2, 0, 1, 2], ["", "", "√", "", "", "√"]),
        ([3, 0], ["x", "\ufffd"]),
        ([], []),
    ],
)
def test_texts_of_tokens_add_up_to_the_text(tokens, expected):
    assert texts(tokens, Bytes()) == expected
    assert "".join(expected) == Bytes().decode(tokens)


def twice(module):
    """As if the last step had learnt from one more group."""
    scored, credit, now, advantages, drive, touched = module.last_rollout
    more = concat([scored, replace(scored, group=scored.group + 5)])
    touched = {name: tokens.repeat(2, 1) for name, tokens in touched.items()}
    module.last_rollout = RolloutTrace(
        more, concat([credit, credit]), concat([now, now]), advantages.repeat(2, 1), drive, touched
    )


@pytest.mark.parametrize("groups, written", [(1, {8}), (2, {3, 8}), (9, {3, 8})])
def test_so_many_groups_are_written_whole_as_there_are(run, tiny, tmp_path, groups, written):
    run([Samples(groups=groups, every=2)], steps=2, module=tiny(during=twice))
    lines = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert {line["group"] for line in lines} == written and len(lines) == 2 * len(written)


def steps(file):
    return [json.loads(line)["step"] for line in file.read_text().splitlines()]


def test_a_run_that_goes_on_adds_to_the_file_and_keeps_aside_what_comes_anew(run, tiny, tmp_path):
    run([Samples(groups=1, every=1)], steps=3)
    with (tmp_path / "samples.jsonl").open("a") as file:
        file.write('{"step": 4, "prom')  # as a killed run leaves it
    later = tiny()
    later.rollouts = 2
    run([Samples(groups=1, every=1)], steps=1, module=later)
    assert steps(tmp_path / "samples.jsonl") == [1, 1, 2, 2, 3, 3]
    aside = (tmp_path / "samples.1.jsonl").read_text().splitlines()
    assert len(aside) == 3 and aside[2] == '{"step": 4, "prom'


def test_a_list_of_which_nothing_is_known_is_null():
    nan = float("nan")
    assert numbers(torch.tensor([nan, nan])) is None
    assert numbers(torch.tensor([nan, 1.0])) == [None, 1.0] and numbers(torch.tensor([])) == []


def test_a_limit_that_is_one_number_is_written_once():
    assert one_or_all([0.8, 0.8]) == 0.8 and one_or_all([0.8, 0.7]) == [0.8, 0.7]
    assert one_or_all([]) == [] and one_or_all(None) is None


def test_what_json_cannot_say_is_null():
    assert number(float("nan")) is None and number(float("-inf")) is None and number(0.1234567) == 0.123457


@pytest.mark.parametrize("groups, every", [(0, 1), (1, 0)])
def test_settings_below_one_are_refused(groups, every):
    with pytest.raises(ValueError, match="at least 1"):
        Samples(groups, every)


def test_what_was_observed_between_turns_stands_in_its_place():
    class Letters:
        def decode(self, tokens):
            return "".join(chr(ord("a") + token) for token in tokens)

    tokens, chosen = torch.arange(8), torch.tensor([1, 1, 0, 0, 0, 1, 1, 1]).bool()
    found = between(tokens, chosen, torch.tensor([0, 0, 1, 1, 1]), Letters())
    assert found == {
        "turn": [0, 0, 1, 1, 1],
        "segments": [[0, 2, True], [2, 5, False], [5, 8, True]],
        "observed": [[2, "cde"]],
    }
    assert between(tokens[:3], chosen[:3] | True, torch.zeros(3).long(), Letters()) == {}
