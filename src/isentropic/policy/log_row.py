"""What a rollout leaves in the log: one row, in which the change of entropy stands beside what was predicted of it."""

from dataclasses import dataclass, field
from math import isfinite, nan
from typing import Any, NamedTuple

from isentropic.algorithm.diagnostics import PREDICTED, rollout_metrics
from isentropic.batch import Credit, Drive, Mask, Metrics, PerToken, ScoredBatch, TokenStats

MEASURED = "entropy/measured_change"


class RolloutTrace(NamedTuple):
    """The last rollout, with each token as it was in its own update: for callbacks that watch."""

    batch: ScoredBatch
    credit: Credit
    now: TokenStats
    advantages: PerToken  # before any credit rule
    drive: Drive
    affected: dict[str, Mask]  # by credit rule, the tokens it scaled, dropped, or gave a kl_weight


@dataclass
class Record:
    """Remembers the entropy before the last update, and what was predicted of it, also in a checkpoint.

    A change of entropy is known only when the next rollout is read: the row of that rollout holds both the change since
    the rollout before and the prediction for it, so that the two are of the same update.
    """

    entropy: float = nan
    predicted: float = nan
    names: set[str] = field(default_factory=set[str])  # logged so far

    def row(self, judged: dict[str, float], steps: list[Metrics]) -> dict[str, float]:
        """All ranks must call. What has no value now but had one is NaN: Lightning would log the last one again."""
        row = judged | rollout_metrics(steps)
        predicted, entropy = row.pop(PREDICTED), judged.get("entropy/mean", nan)
        changes = {PREDICTED: self.predicted, MEASURED: entropy - self.entropy}
        row |= {name: value for name, value in changes.items() if isfinite(value)}
        self.entropy, self.predicted = entropy, predicted
        self.names |= row.keys()
        return dict.fromkeys(sorted(self.names), nan) | row

    def state_dict(self) -> dict[str, Any]:
        """The entropy before this rollout and the change predicted of it, in nats, and the names logged so far."""
        return {"entropy": self.entropy, "predicted": self.predicted, "names": sorted(self.names)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Starts afresh where a checkpoint says nothing."""
        self.entropy, self.predicted = state.get("entropy", nan), state.get("predicted", nan)
        self.names = set(state.get("names", ()))
