"""What does a task pay for that no one worked out, and which golds can nobody earn?

A policy is an attacker with millions of tries: an answer that is right for many problems whatever they ask is what it
ends up with.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from isentropic.task import Problem, Task, Verdict
from isentropic.task.environment import Environment, check_reply

NUMBERS = "nan inf -inf nan+nanj 1e999 0 1 -1 2 3 4 5 10 16 0.0 0.5 1.0 1+1j 00:00 12:00"
WORDS = "True False yes no None null [] {} () [0] [[]] A B x i ?"
CONSTANTS = ("", " ", *NUMBERS.split(), *WORDS.split(), "0 0", "1 day", "impossible", "No solution")
FEW = ("", "nan", "0", "1", "True", "[]")  # of a start, where a second is long
FEW_PROBLEMS = 16
PROBLEMS = 60
GOLDS = 20  # of how many problems the gold is tried on all of them
BUSY = ("timeout", "crash")  # of a machine, not of a gold
TURNS = 20  # of one episode, where nothing ends it before
NOTABLE = 0.1  # mean reward of a constant from which on it is worth a warning


Judge = Callable[[Task, Sequence[Problem], Sequence[str]], list[Verdict]]


@dataclass(frozen=True)
class Earning:
    """What one answer, given to every problem, would earn."""

    answer: str
    reward: float  # mean
    correct: float  # share that it is right for


@dataclass(frozen=True)
class Audit:
    """What guessing earns on a task's problems, and what stands in the way of a right answer."""

    problems: int
    earnings: list[Earning]  # the best first
    unearnable: list[Problem]  # whose own gold is not right
    unknown: int  # problems without a gold to try

    @property
    def best(self) -> Earning:
        """The guess that is paid most."""
        return self.earnings[0]


def audit(
    task: Task,
    problems: Sequence[Problem],
    constants: Sequence[str] = CONSTANTS,
    golds_tried: int = GOLDS,
    played: bool = True,
) -> Audit:
    """Every constant, the prompt itself and the first golds on every problem, and every gold on its own.

    In tasks of several turns, if `played`, each is said again and again until the episode ends.
    """
    judge = play if played and isinstance(task, Environment) else verdicts
    golds = [task.gold(problem) for problem in problems]
    tried = list(dict.fromkeys([*constants, *(gold for gold in golds[:golds_tried] if gold is not None)]))
    earnings = [earning(judge, task, problems, answer, [answer] * len(problems)) for answer in tried]
    earnings.append(earning(judge, task, problems, "the prompt", [problem.prompt for problem in problems]))
    earnings.sort(key=lambda one: (one.reward, one.correct), reverse=True)
    return Audit(len(problems), earnings, unearnable(task, problems), golds.count(None))


def short(task: Task, problems: Sequence[Problem]) -> str | None:
    """What to say at a run's start."""
    return warning(audit(task, problems, FEW, golds_tried=2, played=False))


def earning(judge: Judge, task: Task, problems: Sequence[Problem], name: str, answers: Sequence[str]) -> Earning:
    """Mean reward, and share right, of giving one of these answers whatever the problem."""
    found = judge(task, problems, [task.written(answer) for answer in answers])
    count = max(1, len(found))
    rewards = sum(verdict.reward for verdict in found)
    return Earning(name, rewards / count, sum(verdict.correct for verdict in found) / count)


def verdicts(task: Task, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
    """As training asks for them."""
    return task.verify(problems, texts)


def play(task: Task, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
    """Of an environment, each in a world of its own: the same turn until the episode ends, or for TURNS."""
    assert isinstance(task, Environment)
    found = list[Verdict]()
    for seed, (problem, text) in enumerate(zip(problems, texts, strict=True)):
        episode = task.begin(problem, seed)
        try:
            replies = (check_reply(episode.step(text)).verdict for _ in range(TURNS))
            found.append(next((verdict for verdict in replies if verdict), Verdict(0.0, False, "budget")))
        finally:
            episode.close()
    return found


def unearnable(task: Task, problems: Sequence[Problem]) -> list[Problem]:
    """Problems whose own gold, written as the task wants it, is not right; those without a known one are not tried."""
    known = [(problem, gold) for problem in problems if (gold := task.gold(problem)) is not None]
    verdicts = task.verify([problem for problem, _ in known], [task.written(gold) for _, gold in known])
    pairs = zip(known, verdicts, strict=True)
    return [problem for (problem, _), verdict in pairs if not verdict.correct and verdict.status not in BUSY]


def warning(found: Audit) -> str | None:
    """One sentence where a constant earns more than it should; None where none does."""
    best = found.best
    if best.reward < NOTABLE:
        return None
    return (
        f"the answer {best.answer!r:.60} to every problem earns {best.reward:.3f} on average, and is right for "
        f"{best.correct:.0%} of {found.problems}; a policy will find it, so compare rewards with it"
    )
