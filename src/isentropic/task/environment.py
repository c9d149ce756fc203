"""What answers back? Tasks of several turns, in text: tokens and templates are the player's, in rollout/play.py."""

from abc import abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import isfinite
from numbers import Integral
from typing import Any, Protocol, get_args, runtime_checkable

from isentropic.task import LARGEST, Problem, Split, Status, Task, Verdict

MOST = 2**31  # calls and seconds of a turn; many turns of so many are still numbers that a batch can hold


@dataclass(frozen=True)
class Reply:
    """What the world says to one turn."""

    text: str  # the observation; "" says nothing
    verdict: Verdict | None = None  # given once, at the end, and the text is then not read; None goes on
    void: bool = False  # the turn held neither an action nor an answer
    calls: int = 0  # of tools, those that failed included
    failed: int = 0  # of these, what timed out, crashed or was refused
    seconds: float = 0.0  # of CPU time, of all these calls
    more: tuple[str, ...] = ()  # results of further calls of this turn: in a chat, messages of their own


@runtime_checkable
class Episode(Protocol):
    """One answer under way. Other episodes of the same environment step at the same time, in other threads."""

    def step(self, text: str) -> Reply:
        """What the world says to a turn of the model. May block; never raises for what a model may write."""
        ...

    def close(self) -> None:
        """Called once, also after an error."""
        ...


class Environment(Task):
    """A task that answers each turn of the model until it gives a verdict.

    Runs resume exactly where `step` is a function of the problem, the seed and the texts so far.
    """

    stop: str | None = None  # a text that ends a turn besides the model's own end, and stays in it

    @abstractmethod
    def begin(self, problem: Problem, seed: int) -> Episode:
        """The seed is of all chance in the world of this episode."""

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        """A transcript alone is not judged, but by environments whose verdict is in the text."""
        return [Verdict(0.0, False, "unparseable") for _ in texts]

    def written(self, answer: str) -> str:
        """Behind the first of the texts that it looks for, if it looks for any."""
        return f"{next(iter(self.markers()), '')} {answer}".strip()


class OfTask(Environment):
    """Problems are those of another task."""

    task: Task

    def problems(self, split: Split) -> Sequence[Problem]:
        return self.task.problems(split)

    def sets(self, split: Split) -> dict[str, int]:
        return self.task.sets(split)

    def check(self) -> None:
        self.task.check()

    def written(self, answer: str) -> str:
        return self.task.written(answer)

    def gold(self, problem: Problem) -> str | None:
        """The environment names none, whatever the task does."""

    def close(self) -> None:
        self.task.close()


def own(problem: Problem) -> Problem:
    """A copy for one episode, which may change it as it goes: other answers and later epochs have the same problem."""
    try:
        return deepcopy(problem)
    except TypeError:  # of what cannot be copied, such as a lock
        return problem


def check_episode(episode: Any) -> Episode:
    """Raises TypeError, a sentence, for what cannot be played."""
    for method in ("step", "close"):
        if not callable(getattr(episode, method, None)):
            raise TypeError(f"begin returned {episode!r:.60}, which has no method {method}")
    return episode


def check_reply(reply: Any) -> Reply:
    """Of plain texts and numbers. Raises TypeError or ValueError, a sentence, for what no player can go on with."""
    if not isinstance(reply, Reply):
        raise TypeError(f"step returned {reply!r:.60}, where a Reply must be")
    more: Any = reply.more
    if not isinstance(more, tuple | list):
        raise TypeError(f"step gave {more!r:.60} as more, where a tuple of texts must be")
    texts = (reply.text, *reply.more)
    if not all(isinstance(text, str) for text in texts):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"step gave {texts!r:.60} as text, which is no str")
    verdict: Any = reply.verdict
    if verdict is not None and not isinstance(verdict, Verdict):
        raise TypeError(f"step gave {verdict!r:.60}, where a Verdict or None must be")
    counts: tuple[Any, ...] = (reply.calls, reply.failed)
    if not all(isinstance(count, Integral) for count in counts) or not 0 <= reply.failed <= reply.calls < MOST:
        raise ValueError(f"step counted calls={reply.calls!r:.30}, failed={reply.failed!r:.30}")
    if not 0 <= reply.seconds < MOST or reply.void not in (True, False):
        raise ValueError(f"step gave seconds={reply.seconds}, void={reply.void}")
    return Reply(
        str(reply.text), None if verdict is None else check_verdict(verdict), bool(reply.void), int(reply.calls),
        int(reply.failed), float(reply.seconds), tuple(map(str, reply.more)),
    )  # fmt: skip


def check_verdict(verdict: Verdict) -> Verdict:
    """Of plain numbers. Raises TypeError or ValueError for what is none."""
    if not isfinite(verdict.reward) or abs(verdict.reward) > LARGEST:
        raise ValueError(f"step gave a reward of {verdict.reward!r:.60}, which is not finite or beyond {LARGEST:g}")
    if verdict.correct not in (True, False) or verdict.status not in get_args(Status):
        raise ValueError(f"step gave a verdict with correct={verdict.correct!r:.60} and status={verdict.status!r:.60}")
    return Verdict(float(verdict.reward), bool(verdict.correct), verdict.status)
