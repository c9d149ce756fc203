"""The environment of docs/turns.md, taken from the page and played."""

import re
from pathlib import Path

from transformers import AutoTokenizer

from isentropic.rollout.generate import RolloutGenerator
from isentropic.rollout.prompts import PromptEncoder

PAGE = Path(__file__).parents[1] / "docs" / "turns.md"


def test_the_environment_of_the_page_is_played_as_it_stands(parts):
    (code,) = re.findall(r"```python\n(from dataclasses.*?)```", PAGE.read_text(), re.DOTALL)
    names = {"__name__": "page"}
    exec(compile(code, str(PAGE), "exec"), names)
    task = names["Guess"](largest=9)
    sampler = parts.scripted(lambda value: [])

    class Bisection(dict):
        """Guesses by what stands in the row so far."""

        def __missing__(self, prompt):
            said = "".join(parts.symbols[token] for token in prompt).partition(":")[2]
            low, high = 1, 9
            for guess, answer in re.findall(r"(\d);([-+])", said):
                low, high = (low, int(guess) - 1) if answer == "-" else (int(guess) + 1, high)
            return [[parts.symbols.index(symbol) for symbol in f"{(low + high) // 2};"]]

    sampler.answers = Bisection()
    prompts = PromptEncoder(AutoTokenizer.from_pretrained(parts.model), False, None, (), {})
    generator = RolloutGenerator(task, sampler, prompts, 0, parts.turns())
    problems = task.problems("train")
    decoding = parts.decoding(max_tokens=20, stop=task.stop)
    batch, answers = generator.generate(problems, list(range(9)), 2, decoding, "train")
    assert all(answer.verdict.correct for answer in answers) and len(answers) == 18
    turns = {len(answer.played.texts) for answer in answers}
    assert turns <= {1, 2, 3, 4} and len(turns) > 1
    assert [int(row.max()) + 1 for row in batch.turn] == [len(answer.played.texts) for answer in answers]


def test_each_fault_of_the_table_has_the_test_that_it_names():
    rows = re.findall(r"^\| \[.*\| `(test_\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    there = {
        name
        for path in PAGE.parents[1].glob("tests/**/test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    assert len(rows) == 16 and set(rows) <= there
