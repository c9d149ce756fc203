"""A push that rises by a step while entropy is under its target, and falls by one over it: that of MAI-Thinking-1.

Microsoft AI 2026, "MAI-Thinking-1: Building a Hill-Climbing Machine". Formula B: as a port of it states the rule.
"""

from dataclasses import dataclass, field
from math import isfinite

from isentropic.algorithm.control import Controller
from isentropic.batch import Drive, Vitals


@dataclass
class Ramp(Controller):
    """push <- clip(push + step * sign(target - entropy), 0, ceiling), which moves before it is used; drive.up is it.

    Unlike a gate's, the push goes on over the target until it has come down. A reading that is not finite changes
    nothing. The authors read the entropy with importance weights; here it is the mean over tokens. Raises ValueError
    for settings outside their range.
    """

    target: float  # nats per token
    step: float  # by which the push moves each rollout
    ceiling: float  # of the push, whose floor and start is 0
    push: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if not (isfinite(self.target) and self.target > 0):
            raise ValueError(f"control.target={self.target} is an entropy in nats per token and must be above 0")
        if not self.step > 0:
            raise ValueError(f"control.step={self.step} must be above 0; a push that stays is control=constant")
        if not (isfinite(self.ceiling) and self.ceiling > 0):
            raise ValueError(f"control.ceiling={self.ceiling} must be a number above 0")

    def update(self, vitals: Vitals) -> Drive:
        if isfinite(vitals.entropy):
            sign = (vitals.entropy < self.target) - (vitals.entropy > self.target)
            self.push = min(max(self.push + self.step * sign, 0.0), self.ceiling)
        return Drive(up=self.push)
