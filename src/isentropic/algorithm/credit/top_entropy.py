"""20-Entropy: only the most uncertain fifth of the tokens learns. arXiv:2506.01939"""

from dataclasses import dataclass

from isentropic.algorithm.credit import CreditRule
from isentropic.algorithm.random_choice import count
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats
from isentropic.reductions import masked_max, top_fraction


@dataclass(frozen=True)
class TopEntropy(CreditRule):
    """Drops all tokens but the `top` share by entropy of the policy at the update; the divisor counts the kept ones.

    The share is of the optimizer step on all ranks, at least one token, equals together; the paper and its code take it
    within each (micro-)batch, which `algorithm.scope` repeats. Where so many tokens share the least entropy, mostly an
    exact 0, that they reach into the share, those above it learn alone, however few. Raises ValueError for a share
    outside 0 to 1.
    """

    top: float  # share of tokens, by entropy

    def __post_init__(self) -> None:
        if not 0 < self.top <= 1:
            raise ValueError(
                f"credit.top_entropy.top={self.top} is a share of tokens and must be above 0 and at most 1"
            )

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        kept = top_fraction(now.entropy, credit.mask, self.top)
        if count(kept) > count(credit.mask) * self.top + 1:  # equals reach beyond the share
            least, most = -masked_max(-now.entropy, credit.mask), masked_max(now.entropy, credit.mask)
            kept &= (now.entropy > least) | (least == most)
        return credit.drop(~kept)
