"""STARE's gate with the paper's adaptive schedule: its two weights themselves move, each by its own step.

arXiv:2606.19236. Formula A, as the released code has it.
"""

from dataclasses import dataclass, field
from math import isfinite

from isentropic.algorithm.control import Controller
from isentropic.batch import Drive, Vitals


@dataclass
class AdaptiveGate(Controller):
    """W <- clip(W + boost_step s, 1, boost_most) and M <- clip(M - damp_step s, damp_least, 1), s = sign(target - H).

    They start at the weights of credit/stare, `boost` and `damp`, and move before they are used; a drive of 1 is those
    weights, so that drive.up is (W - 1) / (boost - 1), and drive.up_blamed (M - 1) / (damp - 1). Another boost is
    another start and no other step or limit; one beyond its limit is at it from the first reading on. A weight of 1 is
    none, and stays. Open while H < target, strictly; a reading that is not finite changes nothing. The released code
    forgets W and M when resumed; we save them. Raises ValueError for settings outside their range.
    """

    target: float  # nats per token
    boost: float  # W at the start, that of credit.stare
    damp: float  # M at the start
    boost_step: float  # by which W moves each rollout: the paper's alpha
    boost_most: float  # W_max
    damp_step: float  # by which M moves: the same alpha
    damp_least: float  # M_min
    strength: float = field(default=1.0, init=False)  # of what is praised, (W - 1) / (boost - 1)
    strength_blamed: float = field(default=1.0, init=False)  # of what is blamed, (M - 1) / (damp - 1)
    open: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if not (isfinite(self.target) and self.target > 0):
            raise ValueError(f"control.target={self.target} is an entropy in nats per token and must be above 0")
        if not (self.boost_step >= 0 and self.damp_step >= 0):
            raise ValueError(
                f"control.boost_step={self.boost_step} and damp_step={self.damp_step} must not be negative; 0 keeps a "
                "weight where it is"
            )
        if not (self.boost >= 1 and self.boost_most >= 1):
            raise ValueError(
                f"control.boost={self.boost} and boost_most={self.boost_most} are weights and must be at least 1, "
                "below which surprising tokens of good answers would count for less"
            )
        if not (0 <= self.damp <= 1 and 0 <= self.damp_least <= 1):
            raise ValueError(
                f"control.damp={self.damp} and damp_least={self.damp_least} are weights and must lie in 0 to 1, above "
                "which surprising tokens of bad answers would count for more"
            )

    @property
    def step(self) -> float:
        """Of the strength of what is praised."""
        return in_strengths(self.boost_step, self.boost - 1)

    @property
    def ceiling(self) -> float:
        """Of the strength of what is praised; at it, the weight is boost_most."""
        return in_strengths(self.boost_most - 1, self.boost - 1)

    def update(self, vitals: Vitals) -> Drive:
        if isfinite(vitals.entropy):
            sign = (vitals.entropy < self.target) - (vitals.entropy > self.target)
            self.strength = min(max(self.strength + self.step * sign, 0.0), self.ceiling)
            step, most = (in_strengths(x, 1 - self.damp) for x in (self.damp_step, 1 - self.damp_least))
            self.strength_blamed = min(max(self.strength_blamed + step * sign, 0.0), most)
            self.open = vitals.entropy < self.target
        return Drive(self.strength, 0.0, self.strength_blamed) if self.open else Drive()


def in_strengths(change: float, whole: float) -> float:
    """A change of a weight that a strength of 1 moves by `whole`; 1 where it moves by nothing, so that it stays."""
    return round(change / whole, 12) if whole > 0 else 1.0  # 0.01 of 1.1 - 1 is 0.1, and no rounding
