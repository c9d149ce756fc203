"""The examples of docs/your_data.md and docs/rewards.md: each is built, answered by a tiny model and judged."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from isentropic.config.compose import check_jobs, compose, loader_of
from isentropic.config.entry import CONFIGS
from isentropic.train import parts

DOCS = Path(__file__).resolve().parents[1] / "docs"
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:{% if enable_thinking %} hm{% endif %}"
)


def read(page):
    """Files that a page shows, and the commands among its examples."""
    text = (DOCS / page).read_text()
    files = dict(re.findall(r"^`([\w.]+)`\n\n```\w*\n(.*?)^```$", text, re.M | re.S))
    blocks = re.findall(r"^```bash\n(.*?)^```$", text.partition("## Five examples")[2], re.M | re.S)
    return files, [line for block in blocks for line in block.splitlines()]


EXAMPLES = [(page, line) for page in ("your_data.md", "rewards.md") for line in read(page)[1]]


def test_there_are_five_of_each():
    assert [sum(page == one for page, _ in EXAMPLES) for one in ("your_data.md", "rewards.md")] == [5, 5]


@pytest.fixture
def run(tiny_model, tmp_path, monkeypatch):
    """The first rollout of a command, in a folder with the page's files."""

    def run(page, line):
        for name, text in read(page)[0].items():
            (tmp_path / name).write_text(text)
        shutil.copytree(tiny_model, tmp_path / "model")
        file = tmp_path / "model" / "tokenizer_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": TEMPLATE}))
        monkeypatch.chdir(tmp_path)
        small = [
            "policy.model.path=model", "sampler=transformers", "sampler.max_model_len=512", "rollout.batch_size=4",
            "rollout.group_size=2", "rollout.decoding.max_tokens=8", "rollout.evaluation.problems=1",
            "policy.optimization.mini_batch=4", "policy.optimization.micro_batch=4", "paths.output=out",
        ]  # fmt: skip
        program, command, *overrides = shlex.split(line)
        assert (program, command) == ("isentropic", "train")
        small += ["task.workers=1"] if "task=data" in overrides else []
        lines = [*small, *(quoted(one) for one in overrides)]
        check_jobs(loader_of(CONFIGS), "train", lines, sweep=False)
        with parts(compose(loader_of(CONFIGS), "train", lines)) as (_, _policy, data):
            data.sampler.start()
            stream = data.train_dataloader()
            batch = next(iter(stream))
            data.teardown("fit")
            return data, batch, stream.report

    return run


def quoted(override):
    """As the entry point does it for texts with spaces."""
    key, _, value = override.partition("=")
    return f"{key}='{value}'" if " " in value and value[0] not in "[{" else override


@pytest.mark.slow
@pytest.mark.parametrize(("page", "line"), EXAMPLES)
def test_an_example_runs(run, page, line):
    data, batch, report = run(page, line)
    assert len(batch.reward) == 4 and batch.reward.isfinite().all()
    names = set(data.reward.parts)
    assert {f"reward/{name}" for name in names} <= report.keys()
    if "chats.jsonl" in line:
        shown = [data.prompts.messages(problem) for problem in data.problems_of("train")]
        assert [messages[0]["content"] for messages in shown] == ["Be brief.", "Think first.", "Think first."]
        assert "a prompt, as the policy reads it" in data.example() and "as it is judged" in data.example()
