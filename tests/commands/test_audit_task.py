"""A data set with a little of everything that is wrong."""

import json
from pathlib import Path

import pytest

from isentropic.commands.audit_task import aligned

WRAPPED = "Solve the following problem and give the last line as an answer. How many apples are {} and 1 apples? Go on."


@pytest.mark.slow
def test_what_is_wrong_with_a_data_set_is_found(forks, tiny_model: str, tmp_path: Path):
    asked = "How many apples are {} and {} apples?"
    train = [{"question": asked.format(i, 2), "answer": f"#### {7 if i % 2 else i + 2}"} for i in range(20)]
    test = [{"question": asked.format(i, 1), "answer": f"#### {i + 1}"} for i in range(4)]
    train += [{"question": WRAPPED.format(i), "answer": f"#### {i + 1}"} for i in range(3)]
    train += [train[0]]
    files = tmp_path / "train.jsonl", tmp_path / "test.jsonl"
    for file, rows in zip(files, (train, test), strict=True):
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = tmp_path / "run"
    settings = [
        "task=gsm8k", f"task.train={files[0]}", f"task.test={files[1]}", "task.workers=1", "task.template='{question}'",
        f"policy.model.path={tiny_model}", "rollout.decoding.max_tokens=8", f"hydra.run.dir={run}",
    ]  # fmt: skip
    (result,) = forks("isentropic.commands.audit_task", (settings, {}))
    assert result.returncode == 0, result.stderr
    found = json.loads((run / "audit.json").read_text())
    assert found["constants"][0]["answer"] == "7" and 0.4 < found["constants"][0]["reward"] < 0.6
    assert "the answer '7' to every problem earns" in found["warning"]
    assert found["splits"]["train"]["golds_that_can_be_earned"] == 1.0
    assert found["overlap"]["test"]["same"] == 3
    assert (run / "audit.md").read_text() in result.stdout


@pytest.mark.slow
def test_a_prompt_that_does_not_fit_is_counted_and_left_out(forks, tiny_model: str, tmp_path: Path):
    rows = [{"question": "How many? " * (400 if i == 3 else 1) + str(i), "answer": f"#### {i}"} for i in range(8)]
    for name in ("train", "test"):
        lines = [json.dumps(row | {"question": f"{name} {row['question']}"}) + "\n" for row in rows]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    settings = [
        "task=gsm8k", f"task.train={tmp_path}/train.jsonl", f"task.test={tmp_path}/test.jsonl", "task.workers=1",
        "task.template='{question}'", f"policy.model.path={tiny_model}", "rollout.decoding.max_tokens=8", "split=test",
        "sampler.max_model_len=128", f"hydra.run.dir={tmp_path}/run",
    ]  # fmt: skip
    (result,) = forks("isentropic.commands.audit_task", (settings, {}))
    assert result.returncode == 0, result.stderr
    found = json.loads((tmp_path / "run" / "audit.json").read_text())
    assert [found["splits"][name]["too_long"] for name in ("train", "test")] == [1, 1] and found["problems"] == 7
    assert "Left out of test: 1 of 8 prompts, the longest of" in result.stdout


def test_a_table_is_one_on_a_screen_and_in_markdown():
    assert aligned([("answer", "right"), ("`'1'`", "0%"), ("`'-12'`", "50%")]) == [
        "| answer  | right |",
        "| ------- | ----- |",
        "| `'1'`   | 0%    |",
        "| `'-12'` | 50%   |",
    ]
