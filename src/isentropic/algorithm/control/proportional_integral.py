"""EntroPIC's proportional-integral control of entropy towards its target. arXiv:2511.15248"""

from dataclasses import dataclass, field
from math import isfinite

from isentropic.algorithm.control import Controller
from isentropic.batch import Drive, Vitals


@dataclass
class ProportionalIntegral(Controller):
    """a = clip(proportional * e + integral * sum of earlier e, -limit, limit), with e = entropy - target.

    a > 0 asks for less entropy (drive.down = a), a < 0 for more (drive.up = -a). Released code reads the entropy of
    each micro-batch on each rank and moves there; this reads the rollout's, once. It forgets the sum when resumed; we
    save it. A reading that is not finite changes nothing. Raises ValueError for settings outside their range.
    """

    target: float  # nats per token
    proportional: float  # Kp, per nat
    integral: float  # Ki, per nat and rollout
    limit: float  # of the drive
    total: float = field(default=0.0, init=False)  # of the errors before this reading
    asked: float = field(default=0.0, init=False)  # a

    def __post_init__(self) -> None:
        if not (isfinite(self.target) and self.target > 0):
            raise ValueError(f"control.target={self.target} is an entropy in nats per token and must be above 0")
        if not (self.proportional >= 0 and self.integral >= 0 and self.proportional + self.integral > 0):
            raise ValueError(
                f"control.proportional={self.proportional} and control.integral={self.integral} may not be negative, "
                "nor both 0"
            )
        if not self.limit > 0:
            raise ValueError(f"control.limit={self.limit} must be above 0; .inf is none")

    def update(self, vitals: Vitals) -> Drive:
        if isfinite(vitals.entropy):
            error = vitals.entropy - self.target
            asked = self.proportional * error + self.integral * self.total
            self.asked = min(max(asked, -self.limit), self.limit)
            self.total += error
        return Drive(up=max(-self.asked, 0.0), down=max(self.asked, 0.0))
