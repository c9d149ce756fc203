"""GROP: a group's long answers are worth less, as far as the group can afford it. arXiv:2508.04349, appendix D

Formula C: from one secondary source.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from isentropic.batch import Flag, Group, PerRow, RolloutBatch
from isentropic.reductions import group_mean, group_sum
from isentropic.rollout.curation import Curator


@dataclass(frozen=True)
class Grop(Curator):
    """Adds 0 up to a knee of length, then falls in a line towards -penalty at twice the knee, which no answer reaches.

    The share of right answers says which are charged, and whose lengths give the knee, max((min + max) / 2, mean):

        easy or more         the right ones, of their own lengths
        1 - easy or less     none
        between              the right ones if they are more than the wrong ones, else the wrong ones; of all lengths

    Raises ValueError for a share outside 0.5 to 1 or a negative penalty.
    """

    charges_length: ClassVar[bool] = True
    charges: ClassVar[bool] = True

    easy: float  # share of right answers from which a group is easy: gamma_1
    penalty: float  # the most that is taken off a reward

    def __post_init__(self) -> None:
        if not 0.5 < self.easy <= 1:
            raise ValueError(f"grop.easy={self.easy} is a share of right answers and must be above 0.5, and at most 1")
        if not self.penalty >= 0:
            raise ValueError(f"grop.penalty={self.penalty} is taken off the reward and may not be negative")

    def __call__(self, batch: RolloutBatch) -> RolloutBatch:
        share = group_mean(batch.correct.double(), batch.group)
        easy, hard = share >= self.easy - 1e-9, share <= 1 - self.easy + 1e-9  # counts, not what they round to
        charged = torch.where(easy | (share > 0.5), batch.correct, ~batch.correct) & ~hard
        length = batch.mask.sum(-1).double()
        over = knee(length, batch.correct | ~easy, batch.group)
        beyond = ((length - over) / over.clamp(min=1)).clamp(min=0)
        return replace(batch, reward=batch.reward - torch.where(charged, self.penalty * beyond, 0).to(batch.reward))


def knee(length: PerRow, counted: Flag, group: Group) -> PerRow:
    """Of the lengths counted in each row's group, the middle of the range or the mean, whichever is larger."""
    longest = group_max(torch.where(counted, length, -torch.inf), group)
    shortest = -group_max(torch.where(counted, -length, -torch.inf), group)
    mean = group_sum(torch.where(counted, length, 0), group) / group_sum(counted.double(), group)
    return torch.maximum((shortest + longest) / 2, mean)


def group_max(x: PerRow, group: Group) -> PerRow:
    """Of each row the largest value in its group."""
    number = torch.unique(group, return_inverse=True)[1]
    return torch.full_like(x, -torch.inf).scatter_reduce(0, number, x, "amax")[number]
