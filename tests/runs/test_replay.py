import json

import pytest
import torch

from isentropic.runs.replay import load

GOOD = {"logp": [-1.0, -2.0], "entropy": [0.5, None], "reward": 1, "group": "a"}


@pytest.fixture
def write(tmp_path):
    def save(*completions, name="rollouts.json"):
        lines = name.endswith("l")
        text = "\n".join(map(json.dumps, completions)) if lines else json.dumps(completions)
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return save


@pytest.mark.parametrize("name", ["rollouts.json", "rollouts.jsonl"])
def test_completions_become_a_batch_with_what_is_not_said_as_nan(write, name):
    other = {"logp": [-3.0], "entropy": [0.1], "reward": 0.5, "group": "b", "correct": False, "new_logp": [-2.5]}
    saved = load(write(GOOD, other | {"truncated": True, "tokens": ["x"]}, name=name), None)
    batch = saved.batch
    assert batch.mask.tolist() == [[True, True], [True, False]]
    assert batch.old_logp[batch.mask].tolist() == [-1, -2, -3] and saved.now.logp[batch.mask].tolist() == [-1, -2, -2.5]
    assert batch.old_entropy[0].isnan().tolist() == [False, True]
    assert batch.group.tolist() == [0, 1] and batch.reward.tolist() == [1, 0.5]
    assert batch.correct.tolist() == [True, False] and batch.truncated.tolist() == [False, True]
    for unknown in (batch.sampler_logp, batch.ref_logp, batch.old_sensitivity, saved.now.sensitivity):
        assert unknown.isnan().all() and unknown.dtype == torch.float64
    assert saved.labels == [["0", "1"], ["x"]] and saved.step is None


def test_one_object_is_one_completion(tmp_path):
    (tmp_path / "one.json").write_text(json.dumps(GOOD, indent=1))
    assert len(load(tmp_path / "one.json", None).batch.mask) == 1


def test_of_a_run_folder_the_last_step_is_taken_or_the_one_asked_for(write):
    path = write(*(GOOD | {"step": step, "reward": step} for step in (1, 2, 2)), name="samples.jsonl")
    assert load(path.parent, None).batch.reward.tolist() == [2, 2]
    assert load(path, 1).batch.reward.tolist() == [1] and load(path, 1).step == 1
    with pytest.raises(ValueError, match=r"step=7 is not in .*; there are 1, 2"):
        load(path, 7)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"reward": None}, r"completion 1 lacks reward; each completion needs logp, entropy, reward and group"),
        ({"entropy": [1]}, r"completion 1 has 2 values of logp and 1 of entropy"),
        ({"tokens": [1, 2, 3]}, r"has 2 values of logp and 3 of tokens"),
        ({"logprob": []}, r"unknown key logprob; did you mean logp\?"),
        ({"zebra": []}, r"unknown key zebra; known are logp, entropy, reward"),
        ({"entropy": ["a", 1]}, r'entropy at place 0 is "a", not a number'),
        ({"logp": [None, -1]}, r"logp at place 0 is null, not a number"),
        ({"logp": [0.9, -1]}, r"logp at place 0 is 0.9; the log of a probability is not above 0"),
        ({"logp": -1}, r"logp=-1 is not a list with one value per token"),
        ({"reward": "high"}, r"reward=high is not a number"),
        ({"correct": 1}, r"correct=1 is not true or false"),
    ],
)
def test_what_is_wrong_is_one_sentence(write, change, message):
    with pytest.raises(ValueError, match=message):
        load(write(GOOD | change), None)


@pytest.mark.parametrize(
    "text, message",
    [
        (json.dumps(GOOD) + "\n\nlogp: 1", r"line 3 is not JSON"),
        ("[\n{},\n{]", r"line 3 is not JSON"),
        ("[1]", r"completion 1 is a int; it must be an object with logp, entropy, reward and group"),
        ("[]", r"holds no completion"),
        ("", r"holds no completion"),
    ],
)
def test_a_file_that_is_not_of_the_format_is_named(tmp_path, text, message):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "bad.json", None)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"rollouts=.*nowhere does not exist$"):
        load(tmp_path / "nowhere", None)
    with pytest.raises(ValueError, match=r"or has no samples\.jsonl"):
        load(tmp_path, None)


def test_turns_and_what_was_observed_between_them_are_read(write):
    saved = load(write(GOOD | {"turn": [0, 1], "observed": [[1, "24;"]], "segments": [[0, 1, True]]}, GOOD), None)
    assert saved.batch.turn.tolist() == [[0, 1], [0, 0]] and saved.observed == [{1: "24;"}, {}]
    with pytest.raises(ValueError, match="2 values of logp and 1 of turn"):
        load(write(GOOD | {"turn": [0]}), None)
