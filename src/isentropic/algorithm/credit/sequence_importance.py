"""Sequence-level TIS: one importance weight of sampler against trainer for a whole answer, truncated above.

J. Liu, Y. Li et al. 2025, "When Speed Kills Stability: Demystifying RL Collapse from the Training-Inference Mismatch".
"""

from dataclasses import dataclass
from typing import ClassVar

from isentropic.algorithm.credit import CreditRule, log_mismatch
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats


@dataclass(frozen=True)
class SequenceImportance(CreditRule):
    """min(product over tokens of p_old / p_sampler, ceiling): unbiased below the ceiling, noisy for long answers.

    The log of the product is clamped to +-20, as in verl. Raises ValueError where the sampler's log-probs are unknown.
    """

    corrects_sampler: ClassVar[bool] = True

    ceiling: float

    def __post_init__(self) -> None:
        if not self.ceiling > 0:
            raise ValueError(f"credit.sequence_importance.ceiling={self.ceiling} is a weight and must be above 0")

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        product = log_mismatch(credit, batch, "sequence_importance").sum(-1, keepdim=True).clamp(-20, 20).exp()
        return credit.scale(product.clamp(max=self.ceiling).expand_as(credit.advantages))
