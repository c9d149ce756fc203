import json
from dataclasses import replace

import pytest
import torch

from isentropic.callbacks.samples import Samples, number, numbers
from isentropic.policy.batches import join


def test_whole_groups_are_written_with_what_their_tokens_were_worth(run, tmp_path):
    run([Samples(groups=1, every=2)], steps=4)
    lines = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert [(line["step"], line["prompt"], line["completion"]) for line in lines] == [
        (2, "hi", "j"), (2, "hi", "jk"), (4, "hi", "j"), (4, "hi", "jk"),
    ]  # fmt: skip
    assert lines[1] == {
        "step": 2, "prompt": "hi", "completion": "jk", "reward": 0.0, "correct": False, "truncated": False, "group": 3,
        "tokens": [9, 10], "logp": [-0.25, -0.25], "entropy": [0.3, 0.3], "sensitivity": [0.3, 0.3],
        "sampler_logp": [-0.5, -0.5], "ref_logp": None, "new_logp": [-0.2, -0.2], "new_entropy": [0.3, 0.3],
        "new_sensitivity": [0.3, 0.3], "advantages": [0.0, 0.0], "kept": [True, True],
    }  # fmt: skip


def twice(module):
    """As if the last step had learnt from one more group."""
    scored, credit, now = module.seen
    module.seen = join([scored, replace(scored, group=scored.group + 5)]), join([credit, credit]), join([now, now])


@pytest.mark.parametrize("groups, written", [(1, {3}), (2, {3, 8}), (9, {3, 8})])
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


def test_what_json_cannot_say_is_null():
    assert number(float("nan")) is None and number(float("-inf")) is None and number(0.1234567) == 0.123457


@pytest.mark.parametrize("groups, every", [(0, 1), (1, 0)])
def test_settings_below_one_are_refused(groups, every):
    with pytest.raises(ValueError, match="at least 1"):
        Samples(groups, every)
