"""Entropy up, then down, by the clock: strategies ID and DID of flexible entropy control. arXiv:2602.09782

Formula B: the schedules are the authors' own account; phases of unequal length are our reading of it.
"""

from dataclasses import dataclass
from typing import ClassVar

from isentropic.algorithm.control import Controller
from isentropic.batch import Drive, Vitals


@dataclass
class Phases(Controller):
    """Depends on the share of training done alone, so that a resumed run goes on where it was.

    ID, increase then decrease: the push up fades over phase one; at its end the push down sets in, and fades over phase
    two. DID, decrease, increase, decrease: the push up grows over phase one and stays, as printed; the push down is
    ID's. With equal phases, lambda = 1 - 2 * progress: `up` is lambda (ID) or 1 - lambda (DID) in phase one, and `down`
    is 1 + lambda in phase two. The boundary itself belongs to phase one. Raises ValueError for one outside 0 to 1.
    """

    reads_policy: ClassVar[bool] = False

    rising: bool  # whether the push up grows in phase one and stays: true is DID, false is ID
    boundary: float  # share of training at which phase one ends; the paper's rho

    def __post_init__(self) -> None:
        if not 0 < self.boundary <= 1:
            raise ValueError(f"control.boundary={self.boundary} is a share of training and must be above 0, at most 1")

    def update(self, vitals: Vitals) -> Drive:
        if vitals.progress <= self.boundary:
            done = vitals.progress / self.boundary
            return Drive(up=done if self.rising else 1 - done)
        left = max(1 - vitals.progress, 0.0) / (1 - self.boundary) if self.boundary < 1 else 0.0
        return Drive(up=float(self.rising), down=left)
