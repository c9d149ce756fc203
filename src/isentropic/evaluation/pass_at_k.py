"""pass@k: the chance that one of k completions is right, without bias: 1 - C(n-c, k) / C(n, k). arXiv:2107.03374"""

import torch

from isentropic.evaluation import Counts, PerProblem, Score


class PassAtK(Score):
    """Counts all k-subsets of a problem's n completions, of which c are right. Raises ValueError for k < 1."""

    def __init__(self, k: int, resamples: int) -> None:
        super().__init__(f"pass@{k}", k, resamples)

    def score(self, right: Counts, asked: Counts) -> PerProblem:
        drawn = torch.arange(self.k, device=right.device)
        wrong_left = (asked - right)[:, None] - drawn
        return 1 - (wrong_left.clamp(min=0).double() / (asked[:, None] - drawn)).prod(-1)
