"""Bounds that depend on the probability of the token: flexible entropy control. arXiv:2602.09782

Formula B: the form is the authors' own account; the slopes and intercepts are those of two readings that agree.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from isentropic.algorithm.clipping import Clipping, PpoBounds, check
from isentropic.batch import Drive, PerToken, ScoredBatch, TokenStats


@dataclass(frozen=True)
class Dynamic(Clipping):
    """Room that is wide for rare tokens and narrow for sure ones, on the side where it drives entropy the wanted way.

    In a share `drive.up`, 1 at most, the room above is high_intercept + high_slope * p in place of `high`; in a share
    `drive.down` the room below is low_intercept + low_slope * p in place of `low`. p is the policy's probability of the
    token now, without gradient: with it, a clipped token of a good answer would be pushed down. The closed form says
    the same of the policy before the update: with one ratio for each token the same tokens are clipped and the gradient
    is the same; only the value of clipped tokens differs. Raises ValueError for room that some probability would turn
    around.
    """

    follows_drive: ClassVar[bool] = True

    low: float  # of no drive down: the ratio may fall to 1 - low
    high: float  # of no drive up: it may rise to 1 + high
    ceiling: float  # the ratio itself; .inf turns dual clip off
    high_slope: float  # the paper's H
    high_intercept: float
    low_slope: float  # the paper's M
    low_intercept: float
    closed_form: bool  # bounds from the probability before the update

    def __post_init__(self) -> None:
        check(self.low, self.high, self.ceiling)
        rooms = {"high": (self.high_slope, self.high_intercept), "low": (self.low_slope, self.low_intercept)}
        for side, (slope, rare) in rooms.items():
            if not min(rare, rare + slope) >= 0:
                raise ValueError(
                    f"clipping.{side}_slope={slope} and {side}_intercept={rare} must leave room of 0 or more for every "
                    "probability: the intercept, and the sum of the two, may not be negative"
                )
        if not max(self.low_intercept, self.low_intercept + self.low_slope) < 1:
            raise ValueError(
                f"clipping.low_slope={self.low_slope} and low_intercept={self.low_intercept} must leave less than 1 of "
                "room for every probability: the ratio cannot fall below 0"
            )
        if not self.high_slope < 1:
            raise ValueError(f"clipping.high_slope={self.high_slope} must be below 1, or no ratio is ever clipped")

    def __call__(self, now: TokenStats, batch: ScoredBatch, drive: Drive) -> PpoBounds:
        up, down = min(drive.up, 1.0), min(drive.down, 1.0)
        high_slope, low_slope = up * self.high_slope, down * self.low_slope
        high = (1 - up) * self.high + up * self.high_intercept
        low = (1 - down) * self.low + down * self.low_intercept
        if self.closed_form:
            p = probability(batch.old_logp, batch)
            return PpoBounds((1 - low) / (1 + low_slope * p), (1 + high) / (1 - high_slope * p), self.ceiling)
        p = probability(now.logp.detach(), batch)
        return PpoBounds(1 - (low + low_slope * p), 1 + (high + high_slope * p), self.ceiling)


def probability(logp: PerToken, batch: ScoredBatch) -> PerToken:
    """Of each token under the policy that `logp` is of, 0 to 1, and 1 outside the mask."""
    return torch.where(batch.mask, logp, 0).exp()
