"""What is asked, and was it answered?"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal

Split = Literal["train", "validation", "test"]  # learn from, choose settings by, report on
Message = dict[str, str]  # of a chat: role and content
Status = Literal["right", "wrong", "unsimplified", "unparseable", "timeout", "crash", "void", "budget"]
LARGEST = 1e18  # of a reward, whose square must be a number of 32 bits


@dataclass(frozen=True)
class Problem:
    """One question in text, and what an answer to it is checked against."""

    prompt: str
    reference: Any
    before: tuple[Message, ...] = ()  # messages of a chat before the prompt: a system's, examples
    columns: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)  # of its row, for rewards

    @cached_property
    def id(self) -> int:
        """Of its content, the same in every run and process; 63 bits, for tensors."""
        content = "\0".join([*(f"{m['role']}\0{m['content']}" for m in self.before), self.prompt])
        return int.from_bytes(blake2b(content.encode(), digest_size=8).digest()) >> 1


@dataclass(frozen=True)
class Verdict:
    """The reward of one answer, whether it is right, and why it is not."""

    reward: float
    correct: bool
    status: Status


class Task(ABC):
    """Problems by position, so that a seed and an index name one; no two splits share any."""

    @abstractmethod
    def problems(self, split: Split) -> Sequence[Problem]:
        """Endless tasks have length sys.maxsize and make problem i when it is asked for."""

    @abstractmethod
    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        """One verdict per text, in order. Never raises for what a model may write."""

    def notes(self) -> list[str]:
        """What a run should say of how answers are judged, a sentence each."""
        return []

    def written(self, answer: str) -> str:
        """A text that gives this answer in the way that the task asks for, to try what it pays for."""
        return answer

    def gold(self, problem: Problem) -> str | None:
        """The answer that the reference says is right; None where it names none."""
        return problem.reference if isinstance(problem.reference, str) else None

    def sets(self, split: Split) -> dict[str, int]:
        """Names of the sets that a split is made of, in its order, and problems of each; none where it is one."""
        return {}

    @property
    def verifies(self) -> bool:
        """Whether there is anything to check an answer against."""
        return True

    @property
    def verifies_aside(self) -> bool:
        """Whether `verify` may be called in another thread, of a few answers at a time, while others are written."""
        return False

    def markers(self) -> Sequence[str]:
        """Texts that it looks for in an answer, such as a marker: decoding must keep them."""
        return ()

    def check(self) -> None:
        """Before a run, what takes its time: raises ValueError for problems that cannot be judged."""

    def close(self) -> None:
        """Ends worker processes, if there are any."""
