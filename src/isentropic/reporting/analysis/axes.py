"""What a run had spent by each rollout: rollouts, generated tokens or seconds, so that curves compare at equal cost."""

import numpy as np

from isentropic.runs.metrics import Series
from isentropic.runs.run import Run

AXES = {"rollouts": "rollouts", "tokens": "generated tokens", "seconds": "seconds, without evaluation"}
LOGGED = {"tokens": "throughput/tokens", "seconds": "throughput/seconds"}


def along(run: Run, axis: str, steps: np.ndarray) -> np.ndarray | None:
    """The axis at each of these rollouts; None where the run logged nothing to tell it by."""
    if axis == "rollouts":
        return steps.astype(np.float64)
    spent = run.metrics.get(LOGGED[axis]) or _derived(run, axis)
    if spent is None:
        return None
    return np.interp(steps, np.append(0, spent.steps), np.append(0.0, spent.values))


def _derived(run: Run, axis: str) -> Series | None:
    """For runs that logged no sums. Tokens are those learnt from, times what was asked over what was kept."""
    seconds, speed = run.metrics.get("throughput/step_seconds"), run.metrics.get("throughput/tokens_per_second")
    if seconds is None:
        return None
    if axis == "seconds":
        return Series(seconds.steps, np.cumsum(seconds.values))
    if speed is None or len(speed.steps) != len(seconds.steps):
        return None
    learnt = speed.values * seconds.values
    return Series(seconds.steps, np.cumsum(learnt * _asked_over_kept(run, seconds.steps)))


def _asked_over_kept(run: Run, steps: np.ndarray) -> np.ndarray:
    tries, filled = run.metrics.get("rollout/tries"), run.metrics.get("rollout/filled")
    if tries is None or filled is None:
        return np.ones(len(steps))
    asked, kept = np.interp(steps, tries.steps, tries.values), np.interp(steps, filled.steps, filled.values)
    return asked / np.where(kept > 0, kept, 1)
