"""How long answers are expected to be: the one thing that no config says."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Lengths:
    """Answers from nothing to the longest allowed, by a power law whose mean is a `share` of the longest.

    Of n answers sorted by length, the one at place u between 0 and 1 has longest * u ** (1 / share - 1) tokens; a share
    of 1 makes all of them equal. Raises ValueError for shares and prompts that cannot be.
    """

    prompt: int  # tokens, mean
    share: float  # mean tokens of an answer, of those allowed
    kept: float  # share of the groups that dynamic sampling keeps
    observed: int = 0  # tokens read between the turns of an answer, mean; of one turn, none

    def __post_init__(self) -> None:
        for name in ("share", "kept"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"lengths.{name}={getattr(self, name)} is no share; it must be above 0 and at most 1")
        if self.prompt < 1:
            raise ValueError(f"lengths.prompt={self.prompt} must be at least 1")
        if self.observed < 0:
            raise ValueError(f"lengths.observed={self.observed} is a number of tokens and may not be negative")

    def answers(self, count: int, longest: int) -> list[int]:
        """Of so many answers; the last is cut off at `longest`."""
        power = 1 / self.share - 1
        shorter = [max(1, round(longest * ((i + 0.5) / count) ** power)) for i in range(count - 1)]
        return [*shorter, longest] if count else []

    def mean(self, longest: int) -> float:
        return longest * self.share

    def square(self, longest: int) -> float:
        """Mean of the squared length."""
        return longest**2 / (2 / self.share - 1)
