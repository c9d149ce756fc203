"""Entropy swings between a floor and a limit that comes down to it: strategy OD of flexible entropy control.

arXiv:2602.09782. Formula B: thresholds and hysteresis are the authors' own account, the state at the start is inferred.
"""

from dataclasses import dataclass, field
from math import isfinite

from isentropic.algorithm.control import Controller
from isentropic.batch import Drive, Vitals


@dataclass
class Oscillate(Controller):
    """Pushes up once entropy is at the floor or below, down once it is above the limit, and on as before in between.

    The floor is a share of the entropy at the start; the limit falls from that entropy to the floor as training goes
    on. The start is a setting, or else the first reading that is a number: readings that are not finite change nothing,
    the first one included. Raises ValueError for a start of no entropy, whose floor nothing could reach.
    """

    floor: float  # share of the entropy at the start
    start: float | None  # nats per token; null: the first reading
    initial: float = field(default=0.0, init=False)  # the first reading; 0 until there is one
    up: bool = field(default=False, init=False)  # the paper's s

    def __post_init__(self) -> None:
        if not 0 < self.floor < 1:
            raise ValueError(f"control.floor={self.floor} must be a share of the entropy at the start, in 0 to 1")
        if self.start is not None and not (isfinite(self.start) and self.start > 0):
            raise ValueError(
                f"control.start={self.start} is an entropy in nats per token and must be above 0; "
                "null takes the first reading"
            )

    def update(self, vitals: Vitals) -> Drive:
        if isfinite(vitals.entropy):
            start = self.reference(vitals.entropy)
            low = self.floor * start
            high = low + (start - low) * (1 - vitals.progress)
            self.up = vitals.entropy <= low or (self.up and vitals.entropy <= high)
        return Drive(up=float(self.up), down=float(not self.up))

    def reference(self, entropy: float) -> float:
        """The entropy at the start in nats; this reading, if it is the first. A setting has the last word.

        Raises ValueError where the first reading is not above 0 and no setting stands in for it.
        """
        self.initial = self.initial or entropy
        if self.start is None and not self.initial > 0:
            raise ValueError(
                f"The first entropy reading is {entropy}, of which control=oscillate can keep no share; "
                "set algorithm.control.start to the nats per token that training starts from"
            )
        return self.initial if self.start is None else self.start
