"""GRPO-S: GTPO for whole answers, by their mean entropy. arXiv:2508.04349

Formula B: the paper's text was not at hand; independent readings agree. Goes with algorithm/ratio=arithmetic.
"""

from dataclasses import dataclass

import torch

from isentropic.algorithm.advantage import AdvantageEstimator
from isentropic.batch import PerToken, ScoredBatch
from isentropic.reductions import EPS, group_centred, group_sum, row_mean

TINY = 1e-8  # in every denominator, as the paper


@dataclass(frozen=True)
class GrpoS(AdvantageEstimator):
    """With n right and m wrong answers in a group, and H an answer's mean entropy before the update:

        right: base + bonus * n * H / sum(H of the right)      wrong: -base - bonus * m * (1/H) / sum(1/H of the wrong)

    by the verdict, then z-scores over the group, right and wrong together. A group all right or all wrong gets exactly
    zero: by the formula entropy alone would decide, but the dynamic sampling of DAPO, which the paper builds on, leaves
    no such group. Unknown entropies are left out. Raises ValueError for negative shares.
    """

    base: float  # of the reward, for every answer: beta_1
    bonus: float  # handed out by entropy, on average to each answer: beta_2
    unbiased: bool  # the standard deviation divides by n - 1; the paper does not say

    def __post_init__(self) -> None:
        if not (self.base >= 0 and self.bonus >= 0):
            raise ValueError(f"advantage.base={self.base} and bonus={self.bonus} are shares and may not be negative")

    def __call__(self, batch: ScoredBatch) -> PerToken:
        side = batch.group * 2 + batch.correct  # the right, or the wrong, answers of a group
        counts = batch.mask.any(-1)
        # in double: sums of nearly equal numbers, divided by a small spread
        tokens = batch.mask & batch.old_entropy.isfinite()
        known = tokens.any(-1)
        entropy = row_mean(batch.old_entropy.double(), tokens).clamp(min=0)  # rounding goes below zero
        claim = torch.where(batch.correct, entropy, 1 / (entropy + TINY))
        claim = torch.where(known, claim, 0)
        share = claim / (group_sum(claim, side) + TINY) * group_sum(known.double(), side)
        shaped = torch.where(batch.correct, 1.0, -1.0) * (self.base + self.bonus * share)
        size = group_sum(counts.double(), batch.group)
        mean = group_sum(torch.where(counts, shaped, 0), batch.group) / size.clamp(min=1)
        mixed = group_centred(batch.correct.double(), batch.group) != 0
        distance = torch.where(counts & mixed, shaped - mean, 0)
        variance = group_sum(distance**2, batch.group) / (size - int(self.unbiased)).clamp(min=1)
        advantage = distance / (variance.sqrt() + EPS)
        return torch.where(batch.mask, advantage[:, None], 0).to(batch.old_entropy.dtype)
