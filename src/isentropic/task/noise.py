"""Made-up words with made-up rewards, of any length: for what is measured whatever a text says."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from random import Random

from isentropic.task import Problem, Split, Task, Verdict
from isentropic.task.endless import Endless, seed_of


@dataclass(frozen=True)
class Noise(Task):
    """Prompts of w0, w1, ...; an answer is right by its text's hash, so about half of a group is.

    Raises ValueError where there is no word to choose or none to write.
    """

    words: int  # of a prompt
    vocabulary: int  # different words
    seed: int  # of the training problems
    test_seed: int = 0  # of the test and the validation problems

    def __post_init__(self) -> None:
        for name in ("words", "vocabulary"):
            if getattr(self, name) < 1:
                raise ValueError(f"task.{name}={getattr(self, name)} must be at least 1")

    def problems(self, split: Split) -> Sequence[Problem]:
        return Endless(partial(self.problem, split))

    def problem(self, split: Split, index: int) -> Problem:
        """Words drawn at random, and no reference."""
        draw = Random(f"{seed_of(split, self.seed, self.test_seed)}/{split}/{index}")
        return Problem(" ".join(f"w{draw.randrange(self.vocabulary)}" for _ in range(self.words)), None)

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        return [self.judge(text) for text in texts]

    def judge(self, text: str) -> Verdict:
        """Right by a bit of the text's hash: half of all texts."""
        right = blake2b(text.encode(), digest_size=1).digest()[0] % 2 == 0
        return Verdict(float(right), right, "right" if right else "wrong")
