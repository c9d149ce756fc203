"""GTPO: at each position, reward is handed out by entropy among the answers still going. arXiv:2508.04349

Formula B: the paper's text was not at hand; independent readings agree on the shaping, less so on the normalisation.
Not the GTPO of arXiv:2508.03772, nor that of arXiv:2511.14846.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from isentropic.algorithm.advantage import AdvantageEstimator
from isentropic.batch import Group, Mask, PerToken, ScoredBatch
from isentropic.reductions import EPS, group_centred, group_sum

TINY = 1e-8  # in every denominator, as the paper


@dataclass(frozen=True)
class Gtpo(AdvantageEstimator):
    """With d right and h wrong answers of a group that have a t-th token, entropy H of the policy before the update:

        right: base + bonus * d * H / sum(H of the right)      wrong: -base - bonus * h * (1/H) / sum(1/H of the wrong)

    so doubt earns more in right answers, and confidence costs more in wrong ones; right and wrong are the verdict's,
    whatever the reward. `norm` then takes z-scores over a group's tokens. The paper's, split, takes them apart for
    right and wrong answers: the mean advantage of the right ones is zero, and half of their tokens are pushed down
    (docs/gtpo.md). A group all right or all wrong gets exactly zero: by the formula it would get advantages from
    entropy alone, but the dynamic sampling of DAPO, which the paper builds on, leaves no such group.
    Distances below 1e-6 from the mean are rounding and become zero; a token of unknown entropy gets the base alone.
    Raises ValueError for settings out of range.
    """

    base: float  # of the reward, at every token: alpha_1
    bonus: float  # handed out by entropy, on average at each token: alpha_2
    norm: Literal["split", "joint", "none"]  # z-scores of right and wrong tokens apart, together, or none at all
    unbiased: bool  # the standard deviation divides by n - 1; the paper does not say
    clamp_low: float | None  # nats; entropies below count as this. A re-implementer's reading of the paper's 0.2
    clamp_high: float | None  # nats; entropies above count as this. ... and of its 0.28
    floor: float  # nats; the least entropy whose inverse is taken, lest one certain token get all that is shared out

    def __post_init__(self) -> None:
        if not (self.base >= 0 and self.bonus >= 0):
            raise ValueError(f"advantage.base={self.base} and bonus={self.bonus} are shares and may not be negative")
        if self.norm not in ("split", "joint", "none"):
            raise ValueError(f"advantage.norm={self.norm} must be split, joint or none")
        low, high = self.clamp_low or 0.0, torch.inf if self.clamp_high is None else self.clamp_high
        if not (0 <= low <= high and self.floor >= 0):
            raise ValueError(
                f"advantage.clamp_low={self.clamp_low}, clamp_high={self.clamp_high} and floor={self.floor} are "
                "entropies in nats: none may be negative, nor clamp_low above clamp_high"
            )

    def __call__(self, batch: ScoredBatch) -> PerToken:
        correct = batch.correct[:, None]
        side = batch.group * 2 + batch.correct  # the right, or the wrong, answers of a group
        # in double: sums of many nearly equal numbers, divided by a small spread
        entropy = batch.old_entropy.double().clamp(self.clamp_low or 0.0, self.clamp_high)  # rounding goes below zero
        claim = torch.where(correct, entropy, 1 / (entropy.clamp(min=self.floor) + TINY))
        shaped = torch.where(correct, 1.0, -1.0) * (self.base + self.bonus * shares(claim, batch.mask, side))
        if self.norm != "none":
            shaped = z_scores(shaped, batch.mask, side if self.norm == "split" else batch.group, self.unbiased)
        mixed = group_centred(batch.correct.double(), batch.group) != 0
        return torch.where(batch.mask & mixed[:, None], shaped, 0).to(batch.old_entropy.dtype)


def shares(claim: PerToken, mask: Mask, side: Group) -> PerToken:
    """Of what the t-th tokens of one side claim, each token's part, times the number of these tokens."""
    known = mask & claim.isfinite()
    claim = torch.where(known, claim, 0)
    # Positions count the tokens that the policy chose: prompts, padding and tools do not shift them.
    place = torch.where(mask, mask.cumsum(-1) - 1, mask.shape[1])
    blank = claim.new_zeros(mask.shape[0], mask.shape[1] + 1)
    total = group_sum(blank.scatter(1, place, claim), side).gather(1, place)
    alive = group_sum(blank.scatter(1, place, known.to(claim.dtype)), side).gather(1, place)
    return claim / (total + TINY) * alive


def z_scores(x: PerToken, mask: Mask, over: Group, unbiased: bool) -> PerToken:
    """Over all masked tokens of a group; zero in one without spread."""
    count = group_sum(mask.sum(-1).to(x.dtype), over)
    mean = group_sum(torch.where(mask, x, 0).sum(-1), over) / count.clamp(min=1)
    distance = torch.where(mask, x - mean[:, None], 0)
    distance = torch.where(distance.abs() > EPS, distance, 0)
    variance = group_sum((distance**2).sum(-1), over) / (count - int(unbiased)).clamp(min=1)
    return distance / (variance.sqrt() + EPS)[:, None]
