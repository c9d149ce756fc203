"""Does a world say the same to the same turns? Where not, as where it reads a clock, no resumed run is exact."""

from collections.abc import Sequence
from dataclasses import replace

from isentropic.rollout.side_by_side import side_by_side
from isentropic.rollout.turns import Turns
from isentropic.task import Problem
from isentropic.task.environment import Environment, Reply, own


def unrepeatable(task: Environment, turns: Turns, problem: Problem, texts: Sequence[str]) -> str | None:
    """A sentence, where two episodes of one seed answer the same turns otherwise; not of what raises or hangs."""
    first, second = side_by_side([lambda: heard(task, problem, texts)] * 2, [turns.seconds] * 2, 1, lambda late: None)
    if first.value is None or second.value is None or first.value == second.value:
        return None
    place = next(i for i, pair in enumerate(zip(first.value, second.value, strict=True)) if pair[0] != pair[1])
    return (
        f"{type(task).__name__} says something else to turn {place + 1} when the same problem is played again with the "
        "same seed and the same turns, as where it reads a clock; a run that is resumed will not be the same to the "
        "last bit"
    )


def heard(task: Environment, problem: Problem, texts: Sequence[str]) -> list[Reply]:
    """But for the seconds, which nobody can repeat."""
    episode = task.begin(own(problem), 0)
    try:
        return [replace(episode.step(text), seconds=0.0) for text in texts]
    finally:
        episode.close()
