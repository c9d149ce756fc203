"""Format: does the answer have the parts it must have, as in <think>…</think><answer>…</answer>? arXiv:2501.12948"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from isentropic.reward import Answer, Reward
from isentropic.task import Status
from isentropic.task.judge_pool import JudgePool


@dataclass(frozen=True)
class Format(Reward):
    """1 where the whole text has the form, else 0. Raises ValueError for a pattern that is none."""

    weight: float  # of it in the sum
    tags: list[str]  # each once, in this order, and nothing but space outside of them
    opened: bool  # the prompt ends with the first opening tag, as some chat templates do
    pattern: str | None  # a regular expression for the whole text, in place of tags; matched in the judges' processes
    workers: int  # processes that match
    timeout: float  # seconds for one answer; a pattern that takes longer does not match
    memory: float  # GiB of one process

    def __post_init__(self) -> None:
        if self.pattern is None and not self.tags:
            raise ValueError("reward.format has neither tags nor a pattern; give one, as in reward.format.tags=[think]")
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise ValueError(f"reward.format.pattern={self.pattern!r} is no regular expression: {error}") from error

    def __call__(self, answers: Sequence[Answer]) -> list[float]:
        texts = [answer.text for answer in answers]
        if self.pattern is None:
            return [float(tagged(text, self.tags, self.opened)) for text in texts]
        return [verdict.reward for verdict in self.judges([(self.pattern, text) for text in texts])]

    def markers(self) -> list[str]:
        return [] if self.pattern is not None else [f"<{end}{tag}>" for tag in self.tags for end in ("", "/")]

    def close(self) -> None:
        if "judges" in vars(self):
            self.judges.close()

    @cached_property
    def judges(self) -> JudgePool:
        """Processes that match the pattern, started by the first answer."""
        return JudgePool(f"{__name__}:match", self.workers, self.timeout, self.memory)


def tagged(text: str, tags: Sequence[str], opened: bool) -> bool:
    """By plain search, which takes no longer than the text is long."""
    rest = f"<{tags[0]}>{text}" if opened else text
    if any(rest.count(f"<{end}{tag}>") != 1 for tag in tags for end in ("", "/")):
        return False
    for tag in tags:
        before, _, inner = rest.partition(f"<{tag}>")
        _, closed, rest = inner.partition(f"</{tag}>")
        if before.strip() or not closed:
            return False
    return not rest.strip()


def match(pattern: str, text: str) -> tuple[float, bool, Status]:
    """Called in a caged process only: a pattern may take for ever."""
    fits = re.fullmatch(pattern, text.strip(), re.DOTALL) is not None
    return float(fits), fits, "right" if fits else "wrong"
