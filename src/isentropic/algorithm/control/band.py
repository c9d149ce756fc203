"""Entropy is kept in a band that comes down over training: the switch of Entrocraft, arXiv:2604.26326"""

from dataclasses import dataclass, field
from math import cos, isfinite, pi

from isentropic.algorithm.control import Controller
from isentropic.batch import Drive, Vitals


@dataclass
class Band(Controller):
    """Pushes down above the upper limit, strictly, up below the lower one, and not at all in between.

    Each limit goes from its start to its end over training, in a line or along half a cosine. A reading that is not
    finite leaves the last push. Raises ValueError for limits of no entropy, or that cross.
    """

    upper_start: float  # nats per token
    upper_end: float  # nats per token
    lower_start: float  # nats per token
    lower_end: float  # nats per token
    cosine: bool  # false: a line
    pushed: int = field(default=0, init=False)  # the last push: 1 is up, -1 is down

    def __post_init__(self) -> None:
        for when in ("start", "end"):
            lower, upper = getattr(self, f"lower_{when}"), getattr(self, f"upper_{when}")
            if not (isfinite(upper) and 0 <= lower <= upper and upper > 0):
                raise ValueError(
                    f"control.lower_{when}={lower} and upper_{when}={upper} are entropies in nats per token: neither "
                    "may be negative, nor the lower above the upper"
                )

    def update(self, vitals: Vitals) -> Drive:
        if isfinite(vitals.entropy):
            lower, upper = self.limits(vitals.progress)
            self.pushed = (vitals.entropy < lower) - (vitals.entropy > upper)
        return Drive(up=float(self.pushed > 0), down=float(self.pushed < 0))

    def limits(self, progress: float) -> tuple[float, float]:
        """The lower and the upper one, after a share of training."""
        done = min(max(progress, 0.0), 1.0)
        done = (1 - cos(pi * done)) / 2 if self.cosine else done
        return (
            self.lower_start + done * (self.lower_end - self.lower_start),
            self.upper_start + done * (self.upper_end - self.upper_start),
        )
