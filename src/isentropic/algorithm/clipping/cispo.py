"""The ratio is a weight, limited and without gradient, so that no token stops learning: CISPO. arXiv:2506.13585"""

from dataclasses import dataclass

import torch

from isentropic.algorithm.clipping import Bounds, Clipping, check
from isentropic.batch import Credit, Drive, Mask, PerToken, PerTokenOrRow, ScoredBatch, TokenStats


@dataclass(frozen=True)
class CispoBounds(Bounds):
    """sg(clip(r)) * A * logp: inside the limits, the gradient of the policy loss is that of r * A."""

    low: float  # limit of the ratio from below
    high: float  # and from above
    logp: PerToken  # with its gradient

    def surrogate(self, ratio: PerTokenOrRow, credit: Credit) -> PerToken:
        # What has no chance at all has weight 0; its log-prob would make the product NaN.
        logp = torch.where(credit.mask & ~self.logp.isneginf(), self.logp, 0)
        return ratio.detach().clamp(self.low, self.high) * credit.advantages * logp

    def clipped(self, ratio: PerTokenOrRow, credit: Credit) -> dict[str, Mask]:
        """By side, the tokens whose weight is the limit; they learn on. A lower limit of 0 is none, and no side."""
        counted = credit.advantages != 0
        sides = {"high": counted & (ratio > self.high)}
        return {"low": counted & (ratio < self.low)} | sides if self.low > 0 else sides


@dataclass(frozen=True)
class Cispo(Clipping):
    """MiniMax-M1 has no lower limit, which is low 1, and does not print its upper one; verl has both, as for PPO.

    Raises ValueError for limits that do not lie around 1.
    """

    low: float  # the weight is at least 1 - low
    high: float  # and at most 1 + high

    def __post_init__(self) -> None:
        check(self.low, self.high, torch.inf)

    def __call__(self, now: TokenStats, batch: ScoredBatch, drive: Drive) -> CispoBounds:
        return CispoBounds(1 - self.low, 1 + self.high, now.logp)
