"""Call cost: each call of a tool takes a little off a right answer's reward, and never turns it into a wrong one's."""

from dataclasses import dataclass, replace
from typing import ClassVar

from isentropic.batch import RolloutBatch
from isentropic.rollout.curation import Curator


@dataclass(frozen=True)
class CallCost(Curator):
    """A cost above the spread of a group would turn the sign of right answers; so it ends at `wrong`, and what earns no
    more than that pays nothing.

    Raises ValueError for a negative cost.
    """

    charges: ClassVar[bool] = True

    cost: float  # of one call, failed ones included
    wrong: float  # reward of a wrong answer; -1 behind the curator outcome

    def __post_init__(self) -> None:
        if not self.cost >= 0:
            raise ValueError(f"call_cost.cost={self.cost} is taken off the reward and may not be negative")

    def __call__(self, batch: RolloutBatch) -> RolloutBatch:
        charged = (batch.reward - self.cost * batch.calls).clamp(min=self.wrong)
        return replace(batch, reward=charged.minimum(batch.reward))
