"""What is an answer worth? Each reward by its name and weight; the total is what the policy learns from."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from isentropic.task import Problem, Verdict

OnError = Literal["stop", "zero"]
Value = Any  # a number; None where a reward does not apply; an exception where it failed for this answer. Checked later


@dataclass(frozen=True)
class Played:
    """What the episode of an answer came to, where its task is an environment."""

    texts: tuple[str, ...]  # of the policy's own turns
    calls: int  # of tools
    failed: int  # of these
    observed: int  # tokens that were read between turns
    void: bool  # a turn held neither an action nor an answer
    seconds: float  # CPU time of the calls


@dataclass(frozen=True)
class Answer:
    """One completion and all that is known of it."""

    problem: Problem
    text: str  # as it was judged, without special tokens; of several turns, with what was observed between them
    tokens: Sequence[int]  # that the policy chose
    finish: Literal["stop", "length"]
    group: int  # which problem of the rollout
    place: int  # among the answers of its group, from 0
    verdict: Verdict
    messages: Sequence[Mapping[str, Any]] | None  # the chat that was asked; None for a plain prompt
    played: Played | None = None  # None for an answer of one turn
    step: int = 0  # rollouts of the run before the one that it belongs to

    @property
    def own(self) -> str:
        """What the policy wrote of the text."""
        return "\n".join(self.played.texts) if self.played else self.text

    @property
    def name(self) -> str:
        """Which answer it is, for error messages."""
        start = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        return f"answer {self.place + 1} of group {self.group} ({start!r})"


class RewardError(ValueError):
    """A reward that cannot be used, in one sentence with its name and the answer."""


class RewardSource(ABC):
    """What stands under a name in configs/reward/: one reward, or several."""

    @abstractmethod
    def rewards(self, name: str) -> "dict[str, Reward]":
        """By the names that they are logged under."""


class Reward(RewardSource):
    """One number for each answer. On several ranks, each sees its own answers; those of a group come together."""

    weight: float

    @abstractmethod
    def __call__(self, answers: Sequence[Answer]) -> Sequence[Value]:
        """What comes back is checked, and awaited if it must be."""

    def rewards(self, name: str) -> "dict[str, Reward]":
        return {name: self}

    def kept(self) -> dict[str, Any]:
        """What a function of one's own keeps between calls, by its names, which no checkpoint can hold."""
        return {}

    @property
    def title(self) -> str:
        """What error messages call it beside its name."""
        return type(self).__name__

    @property
    def call_timeout(self) -> float | None:
        """Seconds, for all answers of one call."""
        return None

    @property
    def goes_on(self) -> bool:
        """Whether it counts as 0 where it fails, and the run goes on."""
        return False

    def markers(self) -> Sequence[str]:
        """Texts that it looks for in an answer, such as tags: decoding must keep them."""
        return ()

    def check(self, problem: Problem) -> None:
        """Raises ValueError for a problem that it cannot judge answers to; called before the engine starts."""

    def close(self) -> None:
        """Ends worker processes, if there are any."""
