"""Is an answer right? What evaluations ask; several may be asked, and the first decides."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """An answer as a grader sees it."""

    question: str
    gold: str
    text: str


@dataclass(frozen=True)
class Grade:
    """Whether it is right, why it is not, and the answer that was read in the text, if there is one."""

    right: bool
    status: str  # right, wrong, unparseable, timeout, crash
    extracted: str | None


class Grader(ABC):
    """Never raises for what a model may write."""

    name: str  # under which its verdicts are kept
    only_wrong: bool = (
        False  # it is asked about what the grader that decides calls wrong: its score is an upper reading
    )
    doubt: float = 0.0  # share of what that one calls right that it is asked about too, to see how it errs
    seed: int = 0  # of that share

    @abstractmethod
    def grade(self, items: Sequence[Item]) -> list[Grade]:
        """One grade per item, in order."""

    def written(self, gold: str) -> str:
        """A text that gives this answer as the grader wants it, to try it on golds themselves."""
        return f"\\boxed{{{gold}}}"

    def markers(self) -> list[str]:
        """Texts without which nothing in an answer is found; empty where it reads any text."""
        return []

    def close(self) -> None:
        """Ends worker processes and engines, if there are any."""
