"""Reward functions as TRL's trainers take them (`reward_funcs`), as they are.

def f(prompts, completions, completion_ids, **columns) -> list[float | None]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from isentropic.reward import Answer, OnError, Reward, RewardSource
from isentropic.reward.functions import asked_for, check_arguments, function_at, kept_by
from isentropic.reward.isolated import Pool
from isentropic.task import Problem

OURS = ("prompts", "completions", "completion_ids", "reference")
TRAINERS = ("trainer_state", "log_extra", "log_metric")  # TRL gives them too; what the latter would log is not kept


@dataclass(frozen=True)
class TrainerState:
    """What is known here of the state that TRL's trainer passes."""

    global_step: int  # rollouts of the run before this one


@dataclass(frozen=True)
class Trl(RewardSource):
    """Several functions, each logged under its own name. Raises ValueError for one that does not exist."""

    functions: list[str]  # package.module.name or folder/file.py:name
    weights: list[float] | None  # of each, as TRL's reward_weights; null is 1 for all
    timeout: float | None  # seconds for all answers of one call; where isolated, for one answer
    on_error: OnError
    isolated: bool  # in the judges' processes, one answer at a time
    workers: int  # processes that call
    memory: float  # GiB of one process

    def __post_init__(self) -> None:
        if self.weights is not None and len(self.weights) != len(self.functions):
            raise ValueError(
                f"reward.trl.weights has {len(self.weights)} numbers and reward.trl.functions {len(self.functions)} "
                "functions; give one for each"
            )
        if self.isolated and self.timeout is None:
            raise ValueError("reward.trl.timeout=null has no limit, which isolated=true needs; 5 seconds would do")
        for path in self.functions:
            function_at(path)

    def rewards(self, name: str) -> dict[str, Reward]:
        weights = self.weights or [1.0] * len(self.functions)
        made = {
            getattr(function_at(path), "__name__", path): TrlFunction(weight, path, self)
            for path, weight in zip(self.functions, weights, strict=True)
        }
        if len(made) < len(self.functions):
            raise ValueError("reward.trl.functions has two functions of one name; rename one, as each is logged by it")
        return dict(made)


@dataclass(frozen=True)
class TrlFunction(Reward):
    """One of the functions of reward.trl, of the part's own settings. None from it: the reward does not apply."""

    weight: float  # of it in the sum
    path: str
    settings: Trl = field(repr=False)

    @property
    def call_timeout(self) -> float | None:
        return None if self.settings.isolated else self.settings.timeout

    def kept(self) -> dict[str, Any]:
        return {} if self.settings.isolated else kept_by(function_at(self.path))

    @property
    def goes_on(self) -> bool:
        return self.settings.on_error == "zero"

    @property
    def title(self) -> str:
        return self.path

    def __call__(self, answers: Sequence[Answer]) -> Any:
        if self.settings.isolated:
            return self.pool([arguments([answer], isolated=True) for answer in answers])
        function = function_at(self.path)
        return function(**asked_for(function, arguments(answers, isolated=False)))

    def check(self, problem: Problem) -> None:
        check_arguments(self.path, OURS if self.settings.isolated else (*OURS, *TRAINERS), problem)

    def close(self) -> None:
        if "pool" in vars(self):
            self.pool.close()

    @cached_property
    def pool(self) -> Pool:
        """Processes that run the function, started by the first answer; for isolated=true, which has a timeout."""
        settings = self.settings
        assert settings.timeout is not None
        return Pool("trl", self.path, settings.workers, settings.timeout, settings.memory)


def arguments(answers: Sequence[Answer], isolated: bool) -> dict[str, Any]:
    """Lists with one entry for each answer. In a chat, prompts and completions are messages, as in TRL."""
    columns = list(dict.fromkeys(name for answer in answers for name in answer.problem.columns))
    given: dict[str, Any] = {"reference": [answer.problem.reference for answer in answers]}
    given |= {name: [answer.problem.columns.get(name) for answer in answers] for name in columns}
    given |= {
        "prompts": [prompt_of(answer) for answer in answers],
        "completions": [completion_of(answer) for answer in answers],
        "completion_ids": [list(answer.tokens) for answer in answers],
    }
    if isolated:
        return given
    return given | dict.fromkeys(TRAINERS, unkept) | {"trainer_state": TrainerState(answers[0].step)}


def prompt_of(answer: Answer) -> str | list[Mapping[str, Any]]:
    """As TRL passes it: text, or messages where the prompt was a conversation."""
    return answer.problem.prompt if answer.messages is None else [dict(message) for message in answer.messages]


def completion_of(answer: Answer) -> str | list[dict[str, str]]:
    """As TRL passes it: text, or one assistant message where the prompt was a conversation."""
    return answer.text if answer.messages is None else [{"role": "assistant", "content": answer.text}]


def unkept(*_: Any, **__: Any) -> None:
    """TRL would log this; here each reward is logged by its name, and nothing else of it."""
