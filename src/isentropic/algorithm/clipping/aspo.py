"""In good answers, what has become less likely counts for more: the ratio is turned around. ASPO, arXiv:2510.06062"""

from dataclasses import dataclass

import torch

from isentropic.algorithm.clipping import Bounds, Clipping, check
from isentropic.batch import Credit, Drive, Mask, PerToken, PerTokenOrRow, ScoredBatch, TokenStats


@dataclass(frozen=True)
class AspoBounds(Bounds):
    """w * r / sg(r), with w = sg(r) where A < 0 and 1 / sg(r) where A > 0, at most the ceiling.

    Tokens that PPO stops are stopped; those at the ceiling learn on, with it as their weight. Code built on that of the
    authors writes ceiling * logp for the latter: the same gradient, and a loss of another height.
    """

    low: float  # limit of the ratio from below
    high: float  # and from above
    ceiling: float

    def surrogate(self, ratio: PerTokenOrRow, credit: Credit) -> PerToken:
        ratio = ratio.expand_as(credit.advantages)
        positive = credit.advantages > 0
        ratio = torch.where(positive, ratio.clamp(max=self.high), ratio.clamp(min=self.low))
        weight = turned(ratio.detach(), positive).clamp(max=self.ceiling)
        return credit.advantages * weight * (ratio / ratio.detach())

    def clipped(self, ratio: PerTokenOrRow, credit: Credit) -> dict[str, Mask]:
        """By side, the tokens that are stopped; and those whose weight is the ceiling."""
        positive, negative = credit.advantages > 0, credit.advantages < 0
        return {
            "low": negative & (ratio < self.low),
            "high": positive & (ratio > self.high),
            "ceiling": (positive | negative) & (turned(ratio, positive) > self.ceiling),
        }


def turned(ratio: PerTokenOrRow, positive: Mask) -> PerToken:
    """r, but 1 / r where the advantage is positive."""
    return torch.where(positive, 1 / ratio, ratio)


@dataclass(frozen=True)
class Aspo(Clipping):
    """Raises ValueError for bounds that do not lie around 1.

    The scripts add a KL term to the reference on the tokens of low entropy, and the code widens the bounds to 0.4 on
    the fifth of each answer that has the highest entropy; neither is part of the rule, nor done here.
    """

    low: float  # of bad answers' tokens: stopped below 1 - low
    high: float  # of good answers' tokens: stopped above 1 + high
    ceiling: float  # of the weight; .inf turns it off

    def __post_init__(self) -> None:
        check(self.low, self.high, self.ceiling)

    def __call__(self, now: TokenStats, batch: ScoredBatch, drive: Drive) -> AspoBounds:
        return AspoBounds(1 - self.low, 1 + self.high, self.ceiling)
