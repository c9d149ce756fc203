"""Void turns: an answer with a turn that neither acts nor answers is not learnt from. SimpleTIR, arXiv:2509.02479"""

from dataclasses import dataclass, replace

from isentropic.batch import RolloutBatch
from isentropic.rollout.curation import Curator


@dataclass(frozen=True)
class VoidTurns(Curator):
    """Takes its tokens out of the loss and of every denominator; in its group's mean and deviation it stays."""

    def __call__(self, batch: RolloutBatch) -> RolloutBatch:
        return replace(batch, mask=batch.mask & ~batch.void[:, None])
