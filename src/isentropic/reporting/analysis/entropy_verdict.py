"""What became of a run's entropy: collapse, band, drift and oscillation, in numbers and in words."""

from dataclasses import dataclass

import numpy as np

from isentropic.reporting.analysis.power import CHANCE as ERROR
from isentropic.reporting.analysis.smoothing import BAND, smooth
from isentropic.reporting.analysis.trend import slope
from isentropic.runs.metrics import Series
from isentropic.runs.run import Run

METRIC, TARGET = "entropy/mean", "control/target"
FIRST = 5  # rollouts that make the start, and the end
COLLAPSED = 1 / 3  # of the start
SHORTEST = 20  # rollouts from which a trend can be told
DRIFTS = 0.1  # of the level, over the last half of the run
CHANCE = 0.01  # of calling noise an oscillation
CYCLES = 3  # that must fit into the last half
SHORT = 6  # rollouts: what is faster is one batch of prompts after another


@dataclass(frozen=True)
class Verdict:
    """None where nothing can be said: of too short a run, or, for the band, of a run without a target."""

    start: float | None  # nats, over the first rollouts
    end: float | None  # nats, over the last
    collapse: int | None  # first rollout from which the smoothed entropy stays under a third of its start
    in_band: float | None  # share of rollouts within 20 % of the target
    in_band_late: float | None  # the same over the last half
    drift: float | None  # nats per 100 rollouts, over the last half
    chance: float | None  # of such a drift in noise that remembers
    swing: float | None  # nats: standard deviation about the trend of the last half
    period: float | None  # rollouts: of the oscillation of the last half, if there is one beyond noise
    sentences: list[str]

    @property
    def words(self) -> str:
        return " ".join(self.sentences)


def judge(run: Run) -> Verdict:
    if METRIC not in run.metrics:
        return Verdict(None, None, None, None, None, None, None, None, None, ["Its entropy was not logged."])
    entropy = run.metrics[METRIC]
    steps, values = entropy.steps, entropy.values
    count = max(1, min(FIRST, len(values) // 10))
    start, end = float(values[:count].mean()), float(values[-count:].mean())
    collapse = collapsed(steps, values, start) if len(values) >= SHORTEST else None
    whole, late = band(entropy, run.metrics.get(TARGET))
    drift = chance = swing = period = None
    if len(values) >= SHORTEST:
        half = slice(len(values) // 2, None)
        drift, chance, swing, period = trend(steps[half], values[half])
    sentences = [
        _of_collapse(start, end, collapse, int(steps[-1]), len(values)),
        *_of_band(whole, late, run.metrics.get(TARGET)),
        *_of_trend(drift, chance, swing, period, float(values[len(values) // 2 :].mean()), len(values) // 2),
    ]
    return Verdict(start, end, collapse, whole, late, drift, chance, swing, period, sentences)


def collapsed(steps: np.ndarray, values: np.ndarray, start: float) -> int | None:
    above = np.flatnonzero(smooth(values) >= COLLAPSED * start)
    first = above[-1] + 1 if len(above) else 0
    return int(steps[first]) if first < len(steps) else None


def band(entropy: Series, target: Series | None) -> tuple[float | None, float | None]:
    """Against the target of each rollout, as a target may move."""
    if target is None:
        return None, None
    _, here, there = np.intersect1d(entropy.steps, target.steps, return_indices=True)
    wanted, values = target.values[there], entropy.values[here]
    known = wanted > 0
    inside = (np.abs(values - wanted) <= BAND * wanted)[known]
    return (float(inside.mean()), float(inside[len(inside) // 2 :].mean())) if len(inside) else (None, None)


def trend(steps: np.ndarray, values: np.ndarray) -> tuple[float, float, float, float | None]:
    """Slope per 100 rollouts, p of none, standard deviation about it, and the period of what swings."""
    incline, chance = slope(steps, values)
    rest = values - values.mean() - incline * (steps - steps.mean())
    each = period(rest)
    return 100 * incline, chance, float(rest.std()), None if each is None else each * float(np.median(np.diff(steps)))


def period(rest: np.ndarray) -> float | None:
    """Of the highest peak of the periodogram, if it stands out of noise that remembers (AR 1). Gilman et al. 1963"""
    count, power = len(rest), np.abs(np.fft.rfft(rest)) ** 2
    if count < 2 * SHORTEST or not rest.std() > 1e-9:
        return None
    memory = float(np.clip((rest[1:] * rest[:-1]).sum() / (rest**2).sum(), 0, 0.99))
    frequency = np.arange(1, len(power)) / count
    noise = 1 / (1 + memory**2 - 2 * memory * np.cos(2 * np.pi * frequency))
    share = power[1:] / noise
    share = share / np.median(share) * np.log(2)  # of an exponential, whose median a peak does not move
    bound = -np.log(1 - (1 - CHANCE) ** (1 / len(share)))
    fits = (np.arange(1, len(power)) >= CYCLES) & (1 / frequency >= SHORT)
    best = int(np.argmax(np.where(fits, share, 0)))
    return float(1 / frequency[best]) if fits[best] and share[best] > bound else None


def _of_collapse(start: float, end: float, collapse: int | None, last: int, count: int) -> str:
    level = f"from {start:.3f} to {end:.3f} nats in {last} rollouts"
    if count == 1:
        return f"Entropy was logged once, at {end:.3f} nats."
    if count < SHORTEST:
        return f"Entropy went {level}, too few to judge."
    if collapse is None:
        return f"No collapse: entropy went {level} and did not stay under a third of its start."
    return f"Entropy collapsed: it went {level} and stayed under a third of its start from rollout {collapse} on."


def _of_band(whole: float | None, late: float | None, target: Series | None) -> list[str]:
    if whole is None or late is None or target is None:
        return []
    goal = f"{target.last:.3g} nats" if np.ptp(target.values) < 1e-9 else "the target of each"
    return [f"{whole:.0%} of the rollouts lie within {BAND:.0%} of {goal}, {late:.0%} in the last half."]


def _of_trend(
    drift: float | None, chance: float | None, swing: float | None, period: float | None, level: float, rollouts: int
) -> list[str]:
    if drift is None or chance is None or swing is None:
        return []
    moved = abs(drift) / 100 * rollouts > DRIFTS * level
    way = "falls" if drift < 0 else "rises"
    drifts = f"it still {way}, by {abs(drift):.3f} nats per 100 rollouts" if moved else "it is steady"
    if moved and not chance < ERROR:
        drifts = "no trend stands out of noise that remembers"
    swings = f"swings with a period of {period:.0f} rollouts" if period else "does not swing beyond noise"
    return [f"Over the last half {drifts} ({drift:+.4f}), and it {swings} (standard deviation {swing:.4f} nats)."]
