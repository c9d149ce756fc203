"""avg@k: the share of right completions, k or more of each problem; every problem counts the same."""

from isentropic.evaluation import Counts, PerProblem, Score


class AvgAtK(Score):
    """More than k completions only make it steadier, so all of them count. Raises ValueError for k < 1."""

    def __init__(self, k: int, resamples: int) -> None:
        super().__init__(f"avg@{k}", k, resamples)

    def score(self, right: Counts, asked: Counts) -> PerProblem:
        return right.double() / asked
