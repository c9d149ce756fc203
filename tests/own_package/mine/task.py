"""True steps: `3,8,5,2>27:` is answered by `3*8=24;5-2=3;24+3=27`, and each step counts that is true."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from isentropic.task import Problem, Split, Task, Verdict
from isentropic.task.endless import Endless, check_held_out, split_of

OPERATIONS: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
STEP = re.compile(r"(\d{1,4})([-+*])(\d{1,4})=(\d{1,4})")


@dataclass(frozen=True)
class TrueSteps(Task):
    """Raises ValueError for a held-out share that leaves a split without problems."""

    largest: int  # of the four numbers
    held_out: float  # share that training never sees: half of it validation, half test
    seed: int

    def __post_init__(self) -> None:
        check_held_out(self.held_out)

    def problems(self, split: Split) -> Sequence[Problem]:
        return Endless(lambda index: self.problem(split, index))

    def problem(self, split: Split, index: int) -> Problem:
        draw = Random(f"{self.seed}/{split}/{index}")
        while True:
            numbers = [draw.randint(1, self.largest) for _ in range(4)]
            prompt = f"{','.join(map(str, numbers))}>{draw.randint(1, 99)}:"
            if split_of(prompt, self.held_out) == split:
                return Problem(prompt, None)

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        return [judge(text) for text in texts]


def judge(text: str) -> Verdict:
    """Never raises, whatever the text."""
    steps = [STEP.fullmatch(step) for step in text.split(";")]
    true = [step is not None and OPERATIONS[step[2]](int(step[1]), int(step[3])) == int(step[4]) for step in steps]
    right = all(true)
    return Verdict(sum(true) / len(true), right, "right" if right else "wrong" if any(steps) else "unparseable")
