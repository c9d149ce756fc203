"""Sequence-level TIS: one importance weight of sampler against trainer for a whole answer, truncated above.

J. Liu, Y. Li et al. 2025, "When Speed Kills Stability: Demystifying RL Collapse from the Training-Inference Mismatch".
"""

from dataclasses import dataclass

from isentropic.algorithm.credit import SamplerWeight
from isentropic.batch import PerToken


@dataclass(frozen=True)
class SequenceImportance(SamplerWeight):
    """min(product over tokens of p_old / p_sampler, ceiling): unbiased below the ceiling, noisy for long answers.

    The log of the product is clamped to +-20, as in verl. Raises ValueError where the sampler's log-probs are unknown.
    """

    ceiling: float

    def __post_init__(self) -> None:
        if not self.ceiling > 0:
            raise ValueError(f"credit.sequence_importance.ceiling={self.ceiling} is a weight and must be above 0")

    def weight(self, log_mismatch: PerToken) -> PerToken:
        product = log_mismatch.sum(-1, keepdim=True).clamp(-20, 20).exp()
        return product.clamp(max=self.ceiling).expand_as(log_mismatch)
