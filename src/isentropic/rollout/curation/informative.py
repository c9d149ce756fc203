"""Dynamic sampling (DAPO): a group that is all right or all wrong has no advantage to learn from. arXiv:2503.14476"""

from dataclasses import dataclass

from isentropic.batch import RolloutBatch
from isentropic.reductions import group_mean
from isentropic.rollout.curation import Curator


@dataclass(frozen=True)
class Informative(Curator):
    """Keeps a group if some of its answers are right and some are not; by the verdict, as rewards may be shaped."""

    def __call__(self, batch: RolloutBatch) -> RolloutBatch:
        share = group_mean(batch.correct.float(), batch.group)
        return batch[(share > 0) & (share < 1)]  # pyright: ignore[reportUnknownVariableType]
