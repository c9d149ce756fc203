"""A bonus that grows while entropy is at or under its target, and pays only there: Skywork-OR1, arXiv:2505.22312

Formula B: two readings of the report agree (its text through secondary sources, and TRL's version of it).
"""

from dataclasses import dataclass, field
from math import isfinite

from isentropic.algorithm.control import Controller
from isentropic.batch import Drive, Vitals


@dataclass
class AdaptiveCoefficient(Controller):
    """drive.up = coefficient where entropy <= target, else 0; then coefficient += step there, and -= step above.

    The coefficient is that of a penalty of weight 1. It moves after it is used, so that a run starts without a bonus.
    A reading that is not finite changes nothing. STARE's gate moves before use, and is shut at its target. Raises
    ValueError for settings outside their range.
    """

    target: float  # nats per token
    start: float  # the coefficient of the first rollout
    step: float  # by which it moves each rollout
    ceiling: float  # of the coefficient, whose floor is 0
    coefficient: float = field(init=False)
    paid: float = field(default=0.0, init=False)  # the last drive, kept where the next reading is no number

    def __post_init__(self) -> None:
        if not (isfinite(self.target) and self.target > 0):
            raise ValueError(f"control.target={self.target} is an entropy in nats per token and must be above 0")
        if not self.step > 0:
            raise ValueError(f"control.step={self.step} must be above 0; a coefficient that stays is control=constant")
        if not 0 <= self.start <= self.ceiling:
            raise ValueError(f"control.start={self.start} must lie in 0 to control.ceiling={self.ceiling}")
        self.coefficient = self.start

    def update(self, vitals: Vitals) -> Drive:
        if isfinite(vitals.entropy):
            wanted = vitals.entropy <= self.target
            self.paid = self.coefficient if wanted else 0.0
            self.coefficient = min(max(self.coefficient + (self.step if wanted else -self.step), 0.0), self.ceiling)
        return Drive(up=self.paid)
