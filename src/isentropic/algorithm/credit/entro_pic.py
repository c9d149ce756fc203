"""EntroPIC: probable tokens get a larger advantage to lower entropy, a smaller one to raise it. arXiv:2511.15248"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from isentropic.algorithm.credit import CreditRule
from isentropic.algorithm.random_choice import count
from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats


@dataclass(frozen=True)
class EntroPic(CreditRule):
    """A + (down - up) |A| N / N_high on the N_high of the step's N tokens whose probability is above `threshold`.

    That adds a * mean over those tokens of (-r |A|) to a token-mean loss. In released code this addition is not
    clipped; here PPO's clip is that of the sum, so the two agree on the policy that sampled (r = 1, where theirs is
    run) and differ after several updates of a rollout. Counts are of all ranks, theirs of a micro-batch. Raises
    ValueError for a threshold that is no probability.
    """

    follows_drive: ClassVar[bool] = True
    reads_logp_alone: ClassVar[bool] = True

    threshold: float  # of a token's probability

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1:
            raise ValueError(f"credit.entro_pic.threshold={self.threshold} is a probability: at least 0 and below 1")

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> Credit:
        high = credit.mask & (now.logp.exp() > self.threshold)
        share = count(high) / max(1, count(credit.mask))
        weight = (drive.down - drive.up) / share if share else 0.0
        return credit.scale(torch.where(high, 1 + weight * credit.advantages.sign(), 1))
