"""IcePop: tokens on which sampler and trainer disagree too much get no gradient. arXiv:2510.18855

Formula B: the authors' own account, with which prime-rl's and verl's code agree.
"""

from dataclasses import dataclass

import torch

from isentropic.algorithm.credit import SamplerWeight
from isentropic.batch import PerToken


@dataclass(frozen=True)
class IcePop(SamplerWeight):
    """Each token's weight is k = p_old / p_sampler where low <= k <= high, and 0 elsewhere; the divisor stays.

    Raises ValueError where the sampler's log-probs are unknown, and for bounds that do not lie around 1.
    """

    low: float  # alpha
    high: float  # beta

    def __post_init__(self) -> None:
        if not 0 <= self.low <= 1 <= self.high:
            raise ValueError(f"credit.ice_pop.low={self.low} and high={self.high} are ratios and must lie around 1")

    def weight(self, log_mismatch: PerToken) -> PerToken:
        ratio = log_mismatch.exp()
        return torch.where((ratio >= self.low) & (ratio <= self.high), ratio, 0)
