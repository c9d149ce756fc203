"""Clipping in chosen regions alone: which of the four raises entropy, and which lowers it? arXiv:2602.09782

Formula B: the regions and the experiment are the authors' own account; its range is not printed, PPO's stands for it.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from isentropic.algorithm.clipping import Clipping, PpoBounds, check
from isentropic.batch import Drive, Mask, PerToken, ScoredBatch, TokenStats


@dataclass(frozen=True)
class Regions(Clipping):
    """PPO's bounds on tokens of the regions that are true; elsewhere none, of the ratio or of the dual clip.

        region  advantage  surprisal            clipping it takes away
        E1      > 0        at most the entropy  what lowers entropy
        E2      > 0        above the entropy    what raises it
        E3      < 0        at most the entropy  what raises it
        E4      < 0        above the entropy    what lowers it

    Surprisal and entropy are of the policy before the update, the only entropies that are known when a ratio is
    clipped. Raises ValueError for bounds that do not lie around 1, or without any region.
    """

    reads_policy: ClassVar[bool] = True

    low: float  # in E3 and E4: the ratio may fall to 1 - low
    high: float  # in E1 and E2: and rise to 1 + high
    e1: bool
    e2: bool
    e3: bool
    e4: bool

    def __post_init__(self) -> None:
        check(self.low, self.high, torch.inf)
        if not (self.e1 or self.e2 or self.e3 or self.e4):
            raise ValueError("clipping.e1, e2, e3 and e4 are all false, so nothing is ever clipped; set one to true")

    def __call__(self, now: TokenStats, batch: ScoredBatch, drive: Drive) -> PpoBounds:
        surprising = batch.mask & (-batch.old_logp > batch.old_entropy)
        expected = batch.mask & (-batch.old_logp <= batch.old_entropy)
        above = within(expected, self.e1) | within(surprising, self.e2)
        below = within(expected, self.e3) | within(surprising, self.e4)
        return PpoBounds(limit(below, 1 - self.low, 0.0, now), limit(above, 1 + self.high, torch.inf, now), torch.inf)


def within(region: Mask, clipped: bool) -> Mask:
    """The region's tokens if clipping is on in it, else none."""
    return region & clipped


def limit(tokens: Mask, there: float, elsewhere: float, now: TokenStats) -> PerToken:
    """One limit of the ratio per token, without a gradient: `there` at these tokens, `elsewhere` at all others."""
    return torch.full_like(now.logp.detach(), elsewhere).masked_fill(tokens, there)
