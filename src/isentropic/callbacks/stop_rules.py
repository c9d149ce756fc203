"""Ends a run that does not learn, with a sentence and its last good checkpoint, in place of a row of warnings."""

from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.types import STEP_OUTPUT

from isentropic.batch import RolloutBatch
from isentropic.callbacks.run import policy_of

LOGGED = {"entropy": "entropy/mean", "length": "rollout/length", "gap": "sampler/logp_gap"}  # what a rule goes by


class StopRules(Callback):
    """By what is logged of each rollout, which is the same on all ranks, so that they end together.

    Raises StopRuleError with the name of the rule, which `train` says in one sentence; the run has failed.
    """

    def __init__(
        self,
        skipped: int | None,  # rollouts in a row in which every update was left out, its gradient being not finite
        entropy: list[float] | None,  # the lowest and highest mean entropy, in nats
        length: list[float] | None,  # the same of the mean length of completions, in tokens
        gap: float | None,  # the largest mean difference between the sampler's log-probs and the policy's, in nats
        patience: int,  # rollouts in a row outside of a range
    ) -> None:
        """Raises ValueError for counts below 1 and for ranges that are none."""
        for name, count in (("skipped", skipped), ("patience", patience)):
            if count is not None and count < 1:
                raise ValueError(f"stop_rules.{name}={count} must be at least 1 rollout")
        for name, ends in (("entropy", entropy), ("length", length)):
            if ends is not None and (len(ends) != 2 or not ends[0] < ends[1]):
                raise ValueError(f"stop_rules.{name}={ends} is no range; give the lowest and the highest, as [0.01, 5]")
        if gap is not None and not gap > 0:
            raise ValueError(f"stop_rules.gap={gap} nats must be above 0")
        self.skipped, self.patience = skipped, patience
        self.ranges = {"entropy": entropy, "length": length, "gap": None if gap is None else [0.0, gap]}
        self.count: dict[str, int] = {}  # rollouts in a row, by what is wrong

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: RolloutBatch, batch_idx: int
    ) -> None:
        logged = {name: float(value) for name, value in trainer.callback_metrics.items() if name in LOGGED.values()}
        row = logged | policy_of(pl_module).last_row
        if self.skipped and self.counted("skipped", row.get("policy/skipped", 0.0) >= 1) >= self.skipped:
            raise StopRuleError(
                f"callbacks.stop_rules.skipped: no update of the last {self.skipped} rollouts had a finite gradient, "
                "so nothing was learnt; lower policy.optimization.lr, and go on from a checkpoint before"
            )
        for rule, ends in self.ranges.items():
            value = row.get(LOGGED[rule])
            outside = ends is not None and value is not None and not ends[0] <= value <= ends[1]
            if self.counted(LOGGED[rule], outside) >= self.patience and ends is not None:
                raise StopRuleError(
                    f"callbacks.stop_rules.{rule}: {LOGGED[rule]} was outside of {ends[0]:g} to {ends[1]:g} for "
                    f"{self.patience} rollouts, and is {value:.4g} now"
                )

    def counted(self, name: str, wrong: bool) -> int:
        self.count[name] = self.count.get(name, 0) + 1 if wrong else 0
        return self.count[name]

    def state_dict(self) -> dict[str, dict[str, int]]:
        return {"count": self.count}

    def load_state_dict(self, state_dict: dict[str, dict[str, int]]) -> None:
        self.count = state_dict["count"]


class StopRuleError(RuntimeError):
    """A run that a rule has ended."""
