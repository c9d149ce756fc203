"""One ratio for each answer, the mean of its tokens' ratios: GRPO-S, arXiv:2508.04349"""

from dataclasses import dataclass

from isentropic.algorithm.ratio import Ratio
from isentropic.batch import Mask, PerToken, PerTokenOrRow
from isentropic.reductions import row_mean


@dataclass(frozen=True)
class ArithmeticRatio(Ratio):
    """Over the tokens that take part; 0, which no cost is charged at, in an answer of which none does."""

    def __call__(self, log_ratio: PerToken, mask: Mask) -> PerTokenOrRow:
        return row_mean(log_ratio.clamp(-20, 20).exp(), mask)[:, None]  # finite in every float
