"""What becomes of the learning rate after its warm-up: a factor of `optimization.lr`, by optimizer step.

The names and curves are those of `transformers.get_scheduler`; `final` is its `min_lr_rate`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass


class Schedule(ABC):
    """Depends on the step alone, so that a resumed run has what an uninterrupted one would have."""

    @abstractmethod
    def __call__(self, step: int, steps: int) -> float:
        """Between 0 and 1, for `step` of `steps` after the warm-up."""


@dataclass(frozen=True)
class Constant(Schedule):
    """1 at every step: the learning rate stays as it is after warm-up."""

    def __call__(self, step: int, steps: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Decay(Schedule):
    """Falls to a share of the learning rate. Raises ValueError for a share that is none."""

    final: float  # of the learning rate, that is left after the last step

    def __post_init__(self) -> None:
        check_share("final", self.final)

    def fallen(self, left: float) -> float:
        """The factor where this share of the fall is still to come."""
        return self.final + (1 - self.final) * left


@dataclass(frozen=True)
class Linear(Decay):
    """Falls by the same at each step."""

    def __call__(self, step: int, steps: int) -> float:
        return self.fallen(1 - progress(step, steps))


@dataclass(frozen=True)
class Cosine(Decay):
    """Falls along half a cosine (arXiv:1608.03983)."""

    def __call__(self, step: int, steps: int) -> float:
        return self.fallen((1 + math.cos(math.pi * progress(step, steps))) / 2)


@dataclass(frozen=True)
class WarmupStableDecay(Decay):
    """Stays, then falls by the same at each of the last steps (arXiv:2404.06395).

    A run that goes on for longer from a checkpoint before the fall has lost nothing.
    """

    decay: float  # share of the steps after the warm-up in which it falls

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("decay", self.decay)

    def __call__(self, step: int, steps: int) -> float:
        falling = math.ceil(self.decay * steps)
        stable = steps - falling
        return 1.0 if step < stable else self.fallen(1 - progress(step - stable, falling))


def progress(step: int, steps: int) -> float:
    """From 0 at the first step to 1 after the last."""
    return min(1.0, step / max(1, steps))


def check_share(name: str, share: float) -> None:
    """Raises ValueError for what is not from 0 to 1."""
    if not 0 <= share <= 1:
        raise ValueError(f"policy.schedule.{name}={share} is a share; it must be from 0 to 1")
