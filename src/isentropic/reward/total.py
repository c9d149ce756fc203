"""Rewards of one run together: each checked, weighted and counted, whatever a function of one's own gives back."""

import traceback
import warnings
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite, nan
from numbers import Real
from typing import Any

from isentropic.reward import Answer, Reward, RewardError, RewardSource, Value
from isentropic.reward.limits import within
from isentropic.state import print_of
from isentropic.task import LARGEST, Problem

LOOKS = 3  # at what functions keep
PARTS = ("sum", "given", "failed")  # what is counted of each reward


@dataclass(frozen=True)
class Scores:
    """Of some answers. The total counts what does not apply as 0, as TRL does."""

    total: list[float]
    by_name: dict[str, list[float | None]]
    failed: dict[str, int]


@dataclass(eq=False)
class Failure(Exception):
    """What a reward did wrong; with one answer where that is known."""

    text: str
    answer: Answer | None = None


@dataclass
class Tally:
    """Means per reward over many answers: sums and numbers, which add up over rounds and ranks."""

    sums: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, scores: Scores) -> None:
        """Sums of values that apply, their number, and failures, by reward."""
        for name, values in scores.by_name.items():
            given = [value for value in values if value is not None]
            for part, value in zip(PARTS, (sum(given), len(given), scores.failed[name]), strict=True):
                self.sums[f"{name}/{part}"] = self.sums.get(f"{name}/{part}", 0.0) + value


class Rewards:
    """Raises ValueError where there is none, or two would be logged under one name."""

    def __init__(self, sources: Mapping[str, RewardSource]) -> None:
        self.parts: dict[str, Reward] = {}
        for key, source in sources.items():
            for name, reward in source.rewards(key).items():
                if not isfinite(reward.weight):
                    raise ValueError(f"reward.{key} has a weight of {reward.weight} for {name}; it must be finite")
                if name in self.parts:
                    raise ValueError(f"reward.{key} brings {name}, which another reward is called; rename one of them")
                self.parts[name] = reward
        if not self.parts:
            raise ValueError("reward=[] leaves nothing to learn from; take reward=[correct]")
        self.warned = set[str]()
        self.looks: list[dict[str, Any]] = []  # at what functions keep between calls, before the first of them

    def __call__(self, answers: Sequence[Answer]) -> Scores:
        """Raises RewardError, a sentence, for a reward that fails and is not to go on."""
        self.warn_of_the_forgetful()
        total, scores = [0.0] * len(answers), Scores([], {}, {})
        for name, reward in self.parts.items():
            values, failed = self.values(name, reward, answers)
            scores.by_name[name], scores.failed[name] = values, failed
            total = [t + reward.weight * (0.0 if v is None else v) for t, v in zip(total, values, strict=True)]
        return Scores(total, scores.by_name, scores.failed)

    def values(self, name: str, reward: Reward, answers: Sequence[Answer]) -> tuple[list[float | None], int]:
        """What it gave, 0 in the place of what failed, and how many failed."""
        try:
            given = all_of(reward, answers)
        except Failure as failure:
            self.refuse(name, reward, failure if reward.goes_on else located(reward, answers, failure))
            return [0.0] * len(answers), len(answers)
        values, failed = list[float | None](), 0
        for value, answer in zip(given, answers, strict=True):
            try:
                values.append(number(value, answer))
            except Failure as failure:
                self.refuse(name, reward, failure)
                values.append(0.0)
                failed += 1
        return values, failed

    def refuse(self, name: str, reward: Reward, failure: Failure) -> None:
        """Raises RewardError, or says once that the run goes on."""
        where = f" for {failure.answer.name}" if failure.answer else ""
        sentence = f"reward.{name} ({reward.title}) {failure.text}{where}"
        if not reward.goes_on:
            hint = "; its on_error=zero would go on with 0" if type(reward).goes_on is not Reward.goes_on else ""
            raise RewardError(f"{sentence}{hint}") from failure.__cause__
        if name not in self.warned:
            self.warned.add(name)
            warnings.warn(f"{sentence}; it counts as 0, here and wherever it fails again", stacklevel=2)

    def warn_of_the_forgetful(self) -> None:
        """Before the first calls: a function may keep a cache, which may be forgotten, or a count, which may not."""
        if len(self.looks) == LOOKS:
            return
        self.looks.append({f"{n}: {k}": print_of(v) for n, one in self.parts.items() for k, v in one.kept().items()})
        changed = [name for name, content in self.looks[-1].items() if self.looks[0].get(name) != content]
        if changed:
            self.looks = [{}] * LOOKS
            warnings.warn(
                f"reward.{changed[0]} has changed between two calls, and a checkpoint forgets it; if values hang on "
                "it, write a Reward with state_dict and load_state_dict in place of the function",
                stacklevel=2,
            )

    def check(self, problem: Problem) -> None:
        """Raises ValueError for a problem that a reward cannot judge answers to."""
        for name, reward in self.parts.items():
            try:
                reward.check(problem)
            except ValueError as error:
                raise ValueError(f"reward.{name}: {error}") from error

    def close(self) -> None:
        """Ends what its rewards started."""
        for reward in self.parts.values():
            reward.close()


def means(sums: Mapping[str, float], rewards: Rewards) -> dict[str, float]:
    """Metrics from the sums of a Tally. A mean over nothing is NaN."""
    found: dict[str, float] = {}
    for name, reward in rewards.parts.items():
        given, failed = sums.get(f"{name}/given", 0.0), sums.get(f"{name}/failed", 0.0)
        found[f"reward/{name}"] = sums.get(f"{name}/sum", 0.0) / given if given else float("nan")
        if reward.goes_on:
            found[f"reward/{name}_failed"] = failed / given if given else 0.0
    return found


def all_of(reward: Reward, answers: Sequence[Answer]) -> list[Value]:
    """What one call gives. Raises Failure where there is not one value for each answer."""
    try:
        given: Any = within(reward.call_timeout, reward, answers)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also what asyncio and sys.exit raise
        raise Failure(raised(error)) from error
    values = None if isinstance(given, str | bytes | Mapping | Set) else listed(given)
    if values is None:
        wanted = f"a list with a number for each of {len(answers)} answers"
        raise Failure(f"returned {shown(given)}, where {wanted} must be")
    if len(values) != len(answers):
        raise Failure(f"gave {len(values)} values for {len(answers)} answers")
    return values


def listed(values: Any) -> list[Any] | None:
    """None for what has no length, as a tensor without dimensions, and for a table, which would list its columns."""
    try:
        return list(values) if len(values) >= 0 and not hasattr(values, "columns") else None
    except Exception:
        return None


def shown(value: Any) -> str:
    """For messages, whatever its own code does; on one line."""
    try:
        return f"{' '.join(repr(value).split()):.60}"
    except Exception:
        return article(value)


def located(reward: Reward, answers: Sequence[Answer], failure: Failure) -> Failure:
    """With the first answer for which it raises alone too, if there is one. What hung would hang again."""
    if failure.__cause__ is None or isinstance(failure.__cause__, TimeoutError):
        return failure
    for answer in answers:
        try:
            all_of(reward, [answer])
        except Failure as alone:
            found = Failure(alone.text, answer)
            found.__cause__ = alone.__cause__
            return found
    return failure


def number(value: Any, answer: Answer) -> float | None:
    """Raises Failure for what is no finite number; None stays."""
    if value is None:
        return None
    if isinstance(value, BaseException):
        failure = Failure(raised(value), answer)
        failure.__cause__ = value
        raise failure
    try:
        plain = value.item() if hasattr(value, "item") and one(value) else value
    except Exception:  # whatever its own code does
        plain = value
    if not isinstance(plain, Real | Decimal):
        raise Failure(f"returned {shown(plain)}, which is {article(plain)} and no number,", answer)
    try:
        made = float(plain)
    except OverflowError as error:
        raise Failure(f"returned {shown(plain)}, which is beyond all floats,", answer) from error
    except Exception:
        made = nan  # as a Decimal's that signals
    if not isfinite(made):
        raise Failure(f"returned {made}, which is not finite,", answer)
    if abs(made) > LARGEST:
        raise Failure(f"returned {made:g}, which is beyond {LARGEST:g},", answer)
    return made


def one(value: Any) -> bool:
    """Whether a tensor or array holds a single number."""
    count = value.numel() if hasattr(value, "numel") else getattr(value, "size", 0)
    return count == 1


def article(value: Any) -> str:
    """A value's type with its article, for messages: "an int", "a str"."""
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def raised(error: BaseException) -> str:
    """What happened and where in the function's own code."""
    if isinstance(error, TimeoutError):
        return " ".join(str(error).split())
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "isentropic/reward/" not in frame.filename and not frame.filename.startswith("<frozen ")
    ]
    where = f" in {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"raised {type(error).__name__}{said(error)}{where}"


def said(error: BaseException) -> str:
    """Its message behind a colon, on one line; nothing where it has none, or its own code fails."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        return ""
    return f": {text:.200}" if text else ""
