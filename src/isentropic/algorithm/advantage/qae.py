"""QAE: reward against a quantile of the group in place of its mean. arXiv:2509.22611"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from isentropic.algorithm.advantage import AdvantageEstimator
from isentropic.batch import PerRow, PerToken, ScoredBatch
from isentropic.reductions import EPS, group_index, in_rows, on_tokens, side_by_side


@dataclass(frozen=True)
class Qae(AdvantageEstimator):
    """(R - quantile of the group's rewards) / (unbiased standard deviation + 1e-6), as in the authors' code.

    With rewards of 0 and 1 a group that is mostly wrong has the baseline 0, so that its rare right answers alone are
    praised, and one that is mostly right the baseline 1, so that its wrong answers alone are blamed. That holds for the
    paper's quantile, the least reward that more than a share `quantile` of the group does not exceed; the code's, which
    is linear between neighbours, blends both where the quantile falls between a wrong and a right answer. Groups
    without spread get exactly zero. Raises ValueError for a quantile outside 0 to 1.
    """

    reads_policy: ClassVar[bool] = False

    quantile: float  # the paper's K; a lower one, 0.4, is against collapse, a higher one against explosion
    interpolate: bool  # between neighbours, as the code: true; false: the paper's right-continuous quantile

    def __post_init__(self) -> None:
        if not 0 <= self.quantile <= 1:
            raise ValueError(f"advantage.quantile={self.quantile} is a share of a group and must lie in 0 to 1")

    def __call__(self, batch: ScoredBatch) -> PerToken:
        return on_tokens(self.standing(batch), batch.mask)

    def standing(self, batch: ScoredBatch) -> PerRow:
        """Of each answer in its group."""
        rows = group_index(batch.group)[1]
        there, size = rows < len(batch.group), (rows < len(batch.group)).sum(1, keepdim=True)
        rewards = side_by_side(batch.reward, rows)
        ordered = rewards.masked_fill(~there, torch.inf).sort(1).values
        share = self.quantile * size.double()
        place = share - self.quantile if self.interpolate else (share + EPS).floor()
        below = place.floor().long().clamp(max=size - 1)
        low, high = ordered.gather(1, below), ordered.gather(1, (below + 1).clamp(max=size - 1))
        between = (place - below).to(low.dtype) if self.interpolate else torch.zeros_like(low)
        baseline = low.lerp(high, between)
        centred = torch.where(there, rewards - rewards.sum(1, keepdim=True) / size, 0)
        spread = ((centred**2).sum(1, keepdim=True) / (size - 1).clamp(min=1)).sqrt()
        varies = (there & (rewards != rewards[:, :1])).any(1, keepdim=True)
        return in_rows(torch.where(there & varies, (rewards - baseline) / (spread + EPS), 0), rows, len(batch.group))
