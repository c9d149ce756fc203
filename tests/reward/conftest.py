from collections.abc import Callable
from typing import Any

import pytest

FUNCTIONS = '''
import time

SEEN = []

def length(completions, **kwargs):
    """As in TRL's documentation."""
    return [float(len(completion)) for completion in completions]

def same_as_solution(prompts, completions, completion_ids, solution, **kwargs):
    SEEN.append((prompts, completions, completion_ids, sorted(kwargs)))
    return [None if s is None else float(c == s) for c, s in zip(completions, solution)]

async def later(completions, **kwargs):
    return [1.0 for _ in completions]

def raises(completions, **kwargs):
    return [1 / (len(completion) - 3) for completion in completions]

def hangs(completions, **kwargs):
    time.sleep(3600)

def a_string(completions, **kwargs):
    return "1.0"

def strings(completions, **kwargs):
    return ["right" for _ in completions]

def one_too_few(completions, **kwargs):
    return [1.0 for _ in completions][1:]

def infinite(completions, **kwargs):
    return [float("inf") if completion == "four" else 1.0 for completion in completions]

def nothing(completions, **kwargs):
    return None

def wants(completions, difficulty):
    return [float(d) for d in difficulty]

def tensors(completions, **kwargs):
    import torch
    return torch.arange(len(completions)) / 2

def one_tensor(completions, **kwargs):
    import torch
    return torch.tensor(1.0)

def a_table(completions, **kwargs):
    import torch
    return torch.ones(len(completions), 2)

def beyond(completions, **kwargs):
    return [10**400 for _ in completions]

def leaves(completions, **kwargs):
    raise SystemExit(3)

class Secret:
    def __repr__(self):
        raise RuntimeError("not for you")

def unprintable(completions, **kwargs):
    return [Secret() for _ in completions]

def generator(completions, **kwargs):
    yield from (1.0 for _ in completions)

def a_set(completions, **kwargs):
    return {0.0, 1.0, 2.0}

def cancelled(completions, **kwargs):
    import asyncio
    raise asyncio.CancelledError

class Mute(BaseException):
    def __str__(self):
        raise RuntimeError("not for you")

def mute(completions, **kwargs):
    raise Mute

def signals(completions, **kwargs):
    from decimal import Decimal
    return [Decimal("sNaN") for _ in completions]

def a_frame(completions, **kwargs):
    import pyarrow
    return pyarrow.table({str(i): [1.0] * len(completions) for i in range(len(completions))})

class Broken:
    size = 1
    def item(self):
        raise RuntimeError("not for you")
    def __len__(self):
        raise RuntimeError("not for you")

def broken_items(completions, **kwargs):
    return [Broken() for _ in completions]

def broken(completions, **kwargs):
    return Broken()

def decimals(completions, **kwargs):
    from decimal import Decimal
    return [Decimal("0.5") for _ in completions]

def warms_up(completions, trainer_state):
    return [float(trainer_state.global_step) for _ in completions]

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """As in verl's documentation."""
    SEEN.append((data_source, solution_str, ground_truth, extra_info))
    return {"score": float(solution_str == ground_truth), "acc": True}

def plain_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    if solution_str == "hang":
        time.sleep(3600)
    if solution_str == "leave":
        raise SystemExit(3)
    if solution_str == "break":
        import os
        os._exit(3)
    return solution_str == ground_truth
'''


@pytest.fixture
def functions(tmp_path, monkeypatch) -> Callable[[str], str]:
    """Paths of functions in a file of one's own."""
    from isentropic.reward.functions import function_at

    (tmp_path / "mine.py").write_text(FUNCTIONS)
    function_at.cache_clear()
    return lambda name: f"{tmp_path / 'mine.py'}:{name}"


@pytest.fixture
def answer() -> Callable[..., Any]:
    from isentropic.reward import Answer
    from isentropic.task import Problem, Verdict

    def make(
        text="four", reference="four", group=7, place=0, tokens=None, reward=1.0, messages=None, step=0, **columns
    ):
        problem, verdict = Problem("two and two", reference, columns=columns), Verdict(reward, reward >= 1, "right")
        return Answer(
            problem, text, tokens or [len(word) for word in text], "stop", group, place, verdict, messages, step=step
        )

    return make
