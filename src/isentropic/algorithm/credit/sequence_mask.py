"""Whole answers on which sampler and trainer disagree too much, by the geometric mean of the ratio, are left out.

J. Liu, Y. Li et al. 2025, "When Speed Kills Stability: Demystifying RL Collapse from the Training-Inference Mismatch".
"""

from dataclasses import dataclass
from typing import ClassVar

from isentropic.algorithm.credit import CreditRule, log_mismatch
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats
from isentropic.reductions import row_mean


@dataclass(frozen=True)
class SequenceMask(CreditRule):
    """Drops a row where exp(mean over its tokens of log(p_old / p_sampler)) is below `low` or above `high`.

    The mean per token, not the product, decides, so that long answers do not vanish for being long. The dropped leave
    the divisor. verl (seq_mean_k1) bounds the reciprocal. Raises ValueError where the sampler's log-probs are unknown,
    and for bounds that do not lie around 1.
    """

    corrects_sampler: ClassVar[bool] = True

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= 1 <= self.high:
            raise ValueError(f"credit.sequence_mask.low={self.low} and high={self.high} are ratios: they lie around 1")

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        ratio = row_mean(log_mismatch(credit, batch, "sequence_mask"), credit.mask).exp()
        return credit.drop(~((ratio >= self.low) & (ratio <= self.high))[:, None] & credit.mask)
