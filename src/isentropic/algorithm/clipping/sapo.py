"""A soft gate in place of limits: the further the ratio is from 1, the less a token learns. SAPO, arXiv:2511.20347"""

from dataclasses import dataclass

import torch

from isentropic.algorithm.clipping import Bounds, Clipping
from isentropic.batch import Credit, Drive, Mask, PerToken, PerTokenOrRow, ScoredBatch, TokenStats


@dataclass(frozen=True)
class SapoBounds(Bounds):
    """4 / tau * sigmoid(tau * (r - 1)) in place of r: at 1 the gradient is the policy gradient, and falls both ways."""

    tau_pos: float  # temperature where the advantage is positive
    tau_neg: float  # and where it is negative

    def surrogate(self, ratio: PerTokenOrRow, credit: Credit) -> PerToken:
        ratio = ratio.expand_as(credit.advantages)
        positive, negative = (4 / tau * (tau * (ratio - 1)).sigmoid() for tau in (self.tau_pos, self.tau_neg))
        return credit.advantages * torch.where(credit.advantages > 0, positive, negative)

    def clipped(self, ratio: PerTokenOrRow, credit: Credit) -> dict[str, Mask]:
        """No side: the gate acts on all tokens a little, and stops none."""
        return {}


@dataclass(frozen=True)
class Sapo(Clipping):
    """Raises ValueError for temperatures that are not above 0."""

    tau_pos: float  # how fast the gate closes for tokens of good answers
    tau_neg: float  # and of bad ones; faster, for what they teach is noisier

    def __post_init__(self) -> None:
        if not (self.tau_pos > 0 and self.tau_neg > 0):
            raise ValueError(f"clipping.tau_pos={self.tau_pos} and tau_neg={self.tau_neg} must be above 0")

    def __call__(self, now: TokenStats, batch: ScoredBatch, drive: Drive) -> SapoBounds:
        return SapoBounds(self.tau_pos, self.tau_neg)
