"""Dynamic sampling (DAPO): a group that is all right or all wrong has no advantage to learn from. arXiv:2503.14476"""

from dataclasses import dataclass

from isentropic.batch import RolloutBatch
from isentropic.reductions import group_mean
from isentropic.rollout.curation import Curator


@dataclass(frozen=True)
class Informative(Curator):
    """Keeps a group if some of its answers are right and some are not; by the verdict, as rewards may be shaped.

    Raises ValueError for bounds between which there is nothing.
    """

    above: float  # share of right answers that a group must exceed
    below: float  # and stay under; SimpleTIR's are 0.1 and 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.above < self.below <= 1:
            raise ValueError(
                f"informative.above={self.above} and below={self.below} are shares of right answers, from 0 to 1 in "
                "this order"
            )

    def __call__(self, batch: RolloutBatch) -> RolloutBatch:
        share = group_mean(batch.correct.float(), batch.group)
        return batch[(share > self.above) & (share < self.below)]  # pyright: ignore[reportUnknownVariableType]
