"""Every token of a micro-batch counts the same, and a micro-batch as much as its answers: verl's legacy actor."""

from dataclasses import dataclass

import torch

from isentropic.algorithm.aggregation import Aggregation
from isentropic.batch import Mask, PerToken, Scalar, Totals


@dataclass(frozen=True)
class MicroTokenMean(Aggregation):
    """For comparison with released code only: unlike every other, it depends on how a step is cut.

    The mean over the tokens of each micro-batch, weighted by its share of the step's answers: with uneven lengths this
    is neither the mean over tokens nor that over answers, and changes with micro-batch size and with memory. What was
    published as token-mean with verl's FSDP actor (STARE, JustRL, 20-Entropy) is this.
    """

    def __call__(self, cost: PerToken, mask: Mask, totals: Totals) -> Scalar:
        mean = torch.where(mask, cost, 0).sum() / mask.sum().clamp(min=1)
        return mean * mask.any(-1).sum() / totals.sequences
