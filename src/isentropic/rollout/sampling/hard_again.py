"""Hard ones again: what was hardly solved comes back in later rollouts, beside problems in their shuffled order."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from isentropic.rollout.sampling import Asked, Order, ProblemSampler
from isentropic.rollout.sampling.shuffled import place
from isentropic.state import StateError
from isentropic.task import Problem


@dataclass
class HardAgain(ProblemSampler):
    """Raises ValueError for shares that are none."""

    share: float  # of a rollout's prompts, at most, that are asked again; the oldest first
    below: float  # pass rate under which a problem is asked again
    times: int  # at most, in a row
    fresh: int = field(default=0, init=False)  # prompts of the shuffled order so far
    queue: list[list[int]] = field(default_factory=list[list[int]], init=False)  # place, id and times asked again

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"rollout.sampling.share={self.share} must be above 0 and at most 1")
        if not 0 < self.below <= 1:
            raise ValueError(f"rollout.sampling.below={self.below} is a pass rate; it must be above 0 and at most 1")
        if self.times < 1:
            raise ValueError(f"rollout.sampling.times={self.times} must be at least 1")

    def order(self, problems: Sequence[Problem], position: int, size: int, seed: int) -> Order:
        """Raises StateError where what waits has changed its place since the checkpoint."""
        again = [waiting[0] for waiting in self.queue[: self.most(size)]]
        for where, number, _ in self.queue[: len(again)]:
            if where >= len(problems) or problems[where].id != number:
                raise StateError(
                    "the problems are not those of the checkpoint, which rollout/sampling=hard_again goes on with; "
                    "resume with the same task"
                )
        fresh = self.fresh
        return lambda turn: again[turn] if turn < len(again) else place(fresh + turn - len(again), len(problems), seed)

    def most(self, size: int) -> int:
        """Of a rollout's prompts, those that may be asked again."""
        return int(self.share * size)

    def observe(self, asked: Sequence[Asked], total: int, size: int) -> None:
        waited, self.queue = self.queue[: self.most(size)], self.queue[self.most(size) :]
        self.fresh += total - len(waited)
        for one in asked:
            times = waited[one.turn][2] if one.turn < len(waited) else 0
            here = any(number == one.id for _, number, _ in self.queue)
            if one.rate < self.below and times < self.times and not here:
                self.queue.append([one.place, one.id, times + 1])
