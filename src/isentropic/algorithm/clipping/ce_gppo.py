"""Clipped tokens keep a share of their gradient, by side: CE-GPPO. arXiv:2509.20712"""

from dataclasses import dataclass

import torch

from isentropic.algorithm.clipping import Bounds, Clipping, check
from isentropic.batch import Credit, Drive, Mask, PerToken, PerTokenOrRow, ScoredBatch, TokenStats


@dataclass(frozen=True)
class CeGppoBounds(Bounds):
    """Beyond a limit of PPO's, share * limit * r / sg(r) in place of r; above the ceiling, where A < 0, the ceiling."""

    low: float  # limit of the ratio from below
    high: float  # and from above
    keep_low: float  # share of the gradient that is left below the lower limit
    keep_high: float  # and above the upper one
    ceiling: float  # dual clip, as in PPO's bounds

    def surrogate(self, ratio: PerTokenOrRow, credit: Credit) -> PerToken:
        ratio = ratio.expand_as(credit.advantages)
        one = ratio / ratio.detach()  # whose gradient is the log-prob's
        positive = torch.where(ratio > self.high, self.keep_high * self.high * one, ratio)
        negative = torch.where(ratio < self.low, self.keep_low * self.low * one, ratio).clamp(max=self.ceiling)
        return credit.advantages * torch.where(credit.advantages > 0, positive, negative)

    def clipped(self, ratio: PerTokenOrRow, credit: Credit) -> dict[str, Mask]:
        """By side, the tokens beyond PPO's limit, that learn as at a share of it; and those above the ceiling."""
        return {
            "low": (credit.advantages < 0) & (ratio < self.low),
            "high": (credit.advantages > 0) & (ratio > self.high),
            "ceiling": (credit.advantages < 0) & (ratio > self.ceiling),
        }


@dataclass(frozen=True)
class CeGppo(Clipping):
    """Raises ValueError for limits that do not lie around 1 and for negative shares."""

    low: float  # of bad answers' tokens: the ratio's limit is 1 - low
    high: float  # of good answers' tokens: 1 + high
    keep_low: float  # share of the limit's gradient that is kept below it; the paper's beta 1, more lowers entropy
    keep_high: float  # and above it; beta 2, more raises entropy
    ceiling: float  # the ratio itself where A < 0; .inf turns dual clip off

    def __post_init__(self) -> None:
        check(self.low, self.high, self.ceiling)
        if not (self.keep_low >= 0 and self.keep_high >= 0):
            raise ValueError(
                f"clipping.keep_low={self.keep_low} and keep_high={self.keep_high} are shares of a gradient and may "
                "not be negative; 0 is PPO's clipping"
            )

    def __call__(self, now: TokenStats, batch: ScoredBatch, drive: Drive) -> CeGppoBounds:
        return CeGppoBounds(1 - self.low, 1 + self.high, self.keep_low, self.keep_high, self.ceiling)
