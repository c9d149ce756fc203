"""Environments of gymnasium's kind, as they are: `reset(seed=)` and `step(text)`; the library is not needed.

reset(*, seed) -> (str, info); step(str) -> (str, reward, terminated, truncated, info); close()
Where its spaces are discrete, numbers are read and written as text.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from random import Random
from typing import Any, get_args

from isentropic.task import Problem, Split, Verdict
from isentropic.task.endless import Endless, check_held_out, seed_of, split_of
from isentropic.task.environment import Environment, Reply
from isentropic.task.foreign import made_by, verdict_of
from isentropic.task.prompts import check_template, fill

SEEDS = 2**31  # what numpy's and gymnasium's generators take
KEY = "task.environment"
NUMBER = re.compile(r"\s*-?[0-9]{1,18}\s*")


@dataclass
class Steps:
    """One episode, and the rewards of its steps together."""

    world: Any
    solved: float  # the reward from which on an episode is right
    stop: str
    total: float = field(init=False, default=0.0)

    def step(self, text: str) -> Reply:
        """One step of the environment, whose rewards are summed; the sum is the verdict when it ends."""
        action: str | int = text.removesuffix(self.stop)
        if kind(self.world, "action_space") == "Discrete":
            if not NUMBER.fullmatch(action) or not self.world.action_space.contains(int(action)):
                return Reply("", Verdict(self.total, False, "unparseable"))
            action = int(action)
        said, reward, terminated, truncated, _ = self.world.step(action)
        self.total += float(reward)
        if terminated or truncated:
            return Reply("", verdict_of(self.total, self.solved))
        return Reply(text_of(self.world, said, "step"))

    def close(self) -> None:
        """Closes the environment if it can be."""
        if hasattr(self.world, "close"):
            self.world.close()


@dataclass(frozen=True)
class Gymnasium(Environment):
    """Problem i is what the environment shows after a reset with the i-th seed, which its episodes begin with too.

    Raises ValueError for what cannot be imported or shows no text.
    """

    environment: str  # package.module.Name or folder/file.py:Name, a class or a function that makes one
    options: Mapping[str, Any]  # what it is called with, as gymnasium.make with {id: ...}
    template: str  # the prompt, with {question} for what the environment shows first
    solved: float  # an episode is right from this sum of rewards on
    held_out: float  # share of the seeds that training never sees: half validation, half test
    seed: int  # of the training problems
    test_seed: int = 0  # of the test and the validation problems
    stop: str | None = (
        None  # a text of one token that ends a turn besides the model's own end; the world does not see it
    )

    def __post_init__(self) -> None:
        check_template(self.template)
        check_held_out(self.held_out)
        try:
            for split in get_args(Split):
                self.problem(split, 0)
        except ValueError:
            raise
        except Exception as error:
            raise ValueError(f"{KEY}={self.environment} does not begin: {type(error).__name__}: {error}") from error

    def problems(self, split: Split) -> Sequence[Problem]:
        return Endless(partial(self.problem, split))

    def problem(self, split: Split, index: int) -> Problem:
        """What reset(seed=) shows; its reference is the seed, so that an episode starts where the problem was read."""
        draw = Random(f"{seed_of(split, self.seed, self.test_seed)}/{split}/{index}")
        while split_of(str(seed := draw.randrange(SEEDS)), self.held_out) != split:
            pass
        episode, shown = self.reset(seed)
        with closing(episode):
            return Problem(fill(self.template, shown), seed)

    def reset(self, seed: int) -> tuple[Steps, str]:
        """A new environment of this seed, and what it shows. Raises ValueError where that is no text."""
        world = made_by(KEY, self.environment)(**self.options)
        shown, _ = world.reset(seed=seed)
        return Steps(world, self.solved, self.stop or ""), text_of(world, shown, "reset")

    def begin(self, problem: Problem, seed: int) -> Steps:
        """The world is that of the problem. Raises ValueError where it shows something else than the prompt says."""
        episode, shown = self.reset(problem.reference)
        if fill(self.template, shown) != problem.prompt:
            episode.close()
            raise ValueError(f"{self.environment} shows something else after each reset with seed {problem.reference}")
        return episode


def kind(world: Any, space: str) -> str:
    """The name of a space's class; the class itself would need the library."""
    return type(getattr(world, space, None)).__name__


def text_of(world: Any, shown: Any, method: str) -> str:
    """Whole numbers as such. Raises ValueError for what else is no text, with the method that gave it."""
    if kind(world, "observation_space") in ("Discrete", "Tuple"):
        parts = shown if isinstance(shown, tuple) else (shown,)
        if all(isinstance(part, Integral) for part in parts):
            return ", ".join(str(int(part)) for part in parts)
    if not isinstance(shown, str):
        raise ValueError(f"{KEY}: {method} gave {type(shown).__name__} where only text can be read")
    return shown
