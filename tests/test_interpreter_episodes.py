"""Episodes with the interpreter, from their configs to their rows, with what the model writes given."""

import re
import sys
from pathlib import Path

import pytest
from fixtures.templates import QWEN, chat_tokenizer

from isentropic.config.build import build
from isentropic.config.compose import compose, loader_of
from isentropic.rollout.generate import RolloutGenerator
from isentropic.rollout.prompts import PromptEncoder
from isentropic.sampler.scripted import ScriptedSampler

CONFIGS = Path(__file__).parents[1] / "configs"
GYM = [
    "task=interpreter", "task@task.task=reasoning_gym", "task.workers=1", "task.task.workers=1",
    "+task.task.options={min_terms: 3, max_terms: 3, min_digits: 2, max_digits: 2}",
    "task.task.template='{question} Write a program in a block of ```python, then a line Answer: and the answer.'",
]  # fmt: skip


class Programmer(dict):
    """Writes a program for the sum that is asked, and answers with what it was told."""

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    def __missing__(self, prompt):
        text = self.tokenizer.decode(list(prompt))
        told = re.search(r"Code execution result: (-?\d+)", text)
        (asked,) = re.findall(r"problem: ([-+\d ]+) =", text)
        said = f"Answer: {told[1]}" if told else f"I compute.\n```python\nprint({asked})\n```"
        return [self.tokenizer.encode(f"{said}<|im_end|>")]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a cage")
def test_a_task_of_reasoning_gym_is_solved_by_programs(parts):
    cfg = compose(loader_of(CONFIGS), "train", GYM)
    task, tokenizer = build(cfg, "task"), chat_tokenizer()
    tokenizer.chat_template = QWEN
    sampler = ScriptedSampler(Programmer(tokenizer), tokenizer.convert_tokens_to_ids("<|im_end|>"))
    prompts = PromptEncoder(tokenizer, True, None, (), {})
    generator = RolloutGenerator(task, sampler, prompts, 0, parts.turns(observation_tokens=128))
    problems = [task.problems("train")[place] for place in range(2)]
    try:
        batch, answers = generator.generate(problems, [0, 1], 1, parts.decoding(max_tokens=400), "train")
    finally:
        task.close()
    assert [answer.verdict.status for answer in answers] == ["right", "right"]
    assert [(len(one.played.texts), one.played.calls, one.played.failed) for one in answers] == [(2, 1, 0)] * 2
    assert batch.calls.tolist() == [1, 1] and not batch.void.any()
