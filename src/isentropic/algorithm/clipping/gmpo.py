"""The geometric mean of an answer's ratios, each limited by itself: GMPO. arXiv:2507.20673"""

from dataclasses import dataclass

import torch

from isentropic.algorithm.clipping import Bounds, Clipping
from isentropic.batch import Credit, Drive, Mask, PerToken, PerTokenOrRow, ScoredBatch, TokenStats
from isentropic.reductions import row_mean


@dataclass(frozen=True)
class GmpoBounds(Bounds):
    """Every token has its answer's mean as ratio; an outlier moves it by its limit over the number of tokens."""

    fall: float  # nats that a log-prob may fall
    rise: float  # nats that it may rise

    def surrogate(self, ratio: PerTokenOrRow, credit: Credit) -> PerToken:
        moved = ratio.expand_as(credit.advantages).log()
        positive, negative = moved.clamp(max=self.rise), moved.clamp(min=-self.fall)
        limited = torch.where(credit.advantages > 0, positive, torch.where(credit.advantages < 0, negative, moved))
        return credit.advantages * row_mean(limited, credit.mask).exp()[:, None]

    def clipped(self, ratio: PerTokenOrRow, credit: Credit) -> dict[str, Mask]:
        """By side, the tokens whose own log-prob has no gradient."""
        moved = ratio.log()
        return {
            "low": (credit.advantages < 0) & (moved < -self.fall),
            "high": (credit.advantages > 0) & (moved > self.rise),
        }


@dataclass(frozen=True)
class Gmpo(Clipping):
    """Over the ratios of tokens; the mean is over those that take part. Limits are wide, for the mean is narrow.

    The paper's advantage is the answer's. Where a rule has made it the token's, tokens are limited by their own sign.
    Raises ValueError for negative limits.
    """

    fall: float  # nats that the log-prob of a bad answer's token may fall
    rise: float  # nats that a good answer's may rise

    def __post_init__(self) -> None:
        if not (self.fall >= 0 and self.rise >= 0):
            raise ValueError(f"clipping.fall={self.fall} and rise={self.rise} are nats and may not be negative")

    def __call__(self, now: TokenStats, batch: ScoredBatch, drive: Drive) -> GmpoBounds:
        return GmpoBounds(self.fall, self.rise)
