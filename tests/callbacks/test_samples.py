import json

import pytest

from isentropic.callbacks.samples import Samples, number


def test_some_completions_are_written_with_what_their_tokens_were_worth(run, tmp_path):
    run([Samples(rows=2, every=2)], steps=4)
    lines = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert [(line["step"], line["prompt"], line["completion"]) for line in lines] == [
        (2, "hi", "j"), (2, "hi", "jk"), (4, "hi", "j"), (4, "hi", "jk"),
    ]  # fmt: skip
    assert lines[1] == {
        "step": 2, "prompt": "hi", "completion": "jk", "reward": 0.0, "correct": False, "truncated": False, "group": 3,
        "tokens": [9, 10], "logp": [-0.25, -0.25], "entropy": [0.3, 0.3],
        "advantages": [0.0, 0.0], "kept": [True, True],
    }  # fmt: skip


def test_a_run_that_goes_on_adds_to_the_file(run, tmp_path):
    run([Samples(rows=1, every=1)], steps=1)
    run([Samples(rows=1, every=1)], steps=2)
    assert len((tmp_path / "samples.jsonl").read_text().splitlines()) == 3


def test_what_json_cannot_say_is_null():
    assert number(float("nan")) is None and number(float("-inf")) is None and number(0.1234567) == 0.123457


@pytest.mark.parametrize("rows, every", [(0, 1), (1, 0)])
def test_settings_below_one_are_refused(rows, every):
    with pytest.raises(ValueError, match="at least 1"):
        Samples(rows, every)
