"""Warnings, each given once, by what the policy has logged of the rollout."""

import sys
from collections import Counter

from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.types import STEP_OUTPUT

from isentropic.algorithm.algorithm import Algorithm
from isentropic.algorithm.compatibility import unused_controller
from isentropic.algorithm.diagnostics import QUADRANTS
from isentropic.batch import RolloutBatch
from isentropic.callbacks.run import policy_of, rollouts_of

CLIPPING = ("clipping/clipped_low", "clipping/clipped_high")
DRIVE = ("control/up", "control/down")


class Idle(Callback):
    """A part has acted on no token for `patience` rollouts in a row: an ablation over it would compare equal runs."""

    def __init__(self, patience: int) -> None:
        """Raises ValueError for a patience below 1."""
        if patience < 1:
            raise ValueError(f"idle.patience={patience} must be at least 1 rollout")
        self.patience = patience
        self.idle_for: Counter[str] = Counter()  # rollouts in a row in which a part did nothing
        self.told: set[str] = set()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        policy = policy_of(pl_module)
        if trainer.is_global_zero and (sentence := unused_controller(policy.algorithm)):
            print(f"warning: {sentence}", file=sys.stderr, flush=True)
        if policy.updates == 1:
            self.told.update(CLIPPING)
            if trainer.is_global_zero:
                print(f"warning: {inert(policy.algorithm)}", file=sys.stderr, flush=True)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: RolloutBatch, batch_idx: int
    ) -> None:
        acts = activity(policy_of(pl_module).last_row)
        for part, acted in acts.items():
            self.idle_for[part] = 0 if acted else self.idle_for[part] + 1
        overdue = [part for part in acts if self.idle_for[part] >= self.patience and part not in self.told]
        self.told.update(overdue)
        for part in overdue:
            if trainer.is_global_zero:
                print(f"warning: {self.sentence(part)}", file=sys.stderr, flush=True)

    def sentence(self, part: str) -> str:
        if part == "control":
            return (
                f"The entropy controller has asked for nothing in {self.patience} rollouts (control/up and control/down"
                " are 0), so the parts that follow it are idle too; compare entropy/mean with its target."
            )
        if part in CLIPPING:
            side = part.removeprefix("clipping/clipped_")
            return (
                f"Clipping on the {side} side has acted on no token in {self.patience} rollouts: the policy moves too"
                " little between the updates of a rollout; do not compare clip ranges."
            )
        why = (
            ", because the entropy controller asks for nothing."
            if self.idle_for["control"]
            else "; check its settings."
        )
        return f"The credit rule {part.removeprefix('credit/')} has changed no token in {self.patience} rollouts{why}"


class Dropped(Callback):
    """Much of what was sampled is thrown away: learning from little looks like learning slowly."""

    def __init__(self, limit: float) -> None:
        """Raises ValueError for a limit that is no share."""
        if not 0 < limit <= 1:
            raise ValueError(f"dropped.limit={limit} is a share of tokens: above 0 and at most 1")
        self.limit = limit
        self.told: set[str] = set()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: RolloutBatch, batch_idx: int
    ) -> None:
        for kind, sentence in self.sentences(policy_of(pl_module).last_row).items():
            if kind not in self.told and trainer.is_global_zero:
                print(f"warning: rollout {batch_idx + 1}: {sentence}", file=sys.stderr, flush=True)
            self.told.add(kind)

    def sentences(self, metrics: dict[str, float]) -> dict[str, str]:
        """What is to be told of one rollout, by kind."""
        masked, empty = metrics.get("sampler/masked", 0.0), metrics.get("policy/empty", 0.0)
        found = {
            "masked": (
                f"corrections of the sampler leave {masked:.0%} of the tokens without weight (sampler/masked), above "
                f"the limit of {self.limit:.0%}: sampler and policy disagree (sampler/logp_gap), or bounds are narrow."
            ),
            "empty": (
                "credit rules have dropped every token of an optimizer step (policy/empty), whose loss is therefore 0;"
                " check the settings of the rules under algorithm.credit."
            ),
        }
        wanted = {"masked": masked > self.limit, "empty": empty > 0}
        return {kind: sentence for kind, sentence in found.items() if wanted[kind]}


class FailedCalls(Callback):
    """Tools that fail say so to the model alone, and a run learns from error texts without another sign."""

    def __init__(self, limit: float) -> None:
        """Raises ValueError for a limit that is no share."""
        if not 0 < limit <= 1:
            raise ValueError(f"failed_calls.limit={limit} is a share of calls: above 0 and at most 1")
        self.limit = limit
        self.told = False

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: RolloutBatch, batch_idx: int
    ) -> None:
        failed = rollouts_of(trainer).report.get("rollout/calls_failed", 0.0)
        if failed > self.limit and not self.told and trainer.is_global_zero:
            self.told = True
            print(
                f"warning: rollout {batch_idx + 1}: {failed:.0%} of the tool calls failed (rollout/calls_failed), above"
                f" the limit of {self.limit:.0%}: they timed out, crashed or were refused, and the policy learns from"
                " what it was told of that; look at samples.jsonl.",
                file=sys.stderr,
                flush=True,
            )


def inert(algorithm: Algorithm) -> str:
    """What does nothing with one optimizer step per rollout."""
    ratio, clipping = (type(part).__module__.rpartition(".")[2] for part in (algorithm.ratio, algorithm.clipping))
    ignores_drive = ", whatever the entropy controller asks of it" if algorithm.clipping.follows_drive else ""
    return (
        "Clipping cannot act: with one optimizer step per rollout the ratio is 1, so clipping="
        f"{clipping} of ratio={ratio} limits no token{ignores_drive}, and no other clipping would; for several, take a"
        " policy.optimization.mini_batch below rollout.batch_size, or do not compare clip ranges."
    )


def activity(metrics: dict[str, float]) -> dict[str, bool]:
    """Which of the parts that report have acted in this rollout."""
    rules = (name for name in metrics if name.startswith("credit/") and not name.endswith(QUADRANTS))
    acts = {name: metrics[name] > 0 for name in (*rules, *CLIPPING) if name in metrics}
    if any(name in metrics for name in DRIVE):
        acts = {"control": any(metrics.get(name, 0.0) > 0 for name in DRIVE)} | acts
    return acts
