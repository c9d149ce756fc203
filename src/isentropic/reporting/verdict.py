"""What became of a run's entropy, in four numbers and in words."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """None where nothing can be said: of too short a run, or, for the band, of a run without a target."""

    start: float | None  # nats, over the first rollouts
    end: float | None  # nats, over the last
    collapse: int | None  # first rollout from which the smoothed entropy stays under a share of its start
    in_band: float | None  # share of rollouts within the band around the target
    drift: float | None  # nats per 100 rollouts, over the last half
    swing: float | None  # nats: standard deviation about its trend
    period: float | None  # rollouts: of the dominant oscillation, if there is one
    sentences: list[str]

    @property
    def words(self) -> str:
        return " ".join(self.sentences)
