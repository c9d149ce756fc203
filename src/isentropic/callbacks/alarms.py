"""A part that has not acted for a while says so, once: an ablation over it would compare equal runs."""

import sys
from collections import Counter
from typing import Any

from lightning import Callback, LightningModule, Trainer

from isentropic.algorithm.algorithm import Algorithm
from isentropic.algorithm.compatibility import unused_controller
from isentropic.algorithm.diagnostics import QUADRANTS
from isentropic.policy.module import PolicyModule

CLIPPING = ("clipping/clipped_low", "clipping/clipped_high")
DRIVE = ("control/up", "control/down")


class Idle(Callback):
    """Reads the logged share of tokens each part touched; zero `patience` rollouts in a row is worth a warning."""

    def __init__(self, patience: int) -> None:
        """Raises ValueError for a patience below 1."""
        if patience < 1:
            raise ValueError(f"idle.patience={patience} must be at least 1 rollout")
        self.patience = patience
        self.still: Counter[str] = Counter()  # rollouts in a row without a deed
        self.told: set[str] = set()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not isinstance(pl_module, PolicyModule):
            return
        if trainer.is_global_zero and (sentence := unused_controller(pl_module.algorithm)):
            print(f"warning: {sentence}", file=sys.stderr, flush=True)
        if pl_module.updates == 1:
            self.told.update(CLIPPING)
            if trainer.is_global_zero:
                print(f"warning: {inert(pl_module.algorithm)}", file=sys.stderr, flush=True)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        acts = activity({name: float(value) for name, value in trainer.callback_metrics.items()})
        for part, acted in acts.items():
            self.still[part] = 0 if acted else self.still[part] + 1
        ripe = [part for part in acts if self.still[part] >= self.patience and part not in self.told]
        self.told.update(ripe)
        for part in ripe:
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
        why = ", because the entropy controller asks for nothing." if self.still["control"] else "; check its settings."
        return f"The credit rule {part.removeprefix('credit/')} has changed no token in {self.patience} rollouts{why}"


def inert(algorithm: Algorithm) -> str:
    """What does nothing with one optimizer step per rollout."""
    ratio, clipping = (type(part).__module__.rpartition(".")[2] for part in (algorithm.ratio, algorithm.clipping))
    deaf = ", whatever the entropy controller asks of it" if algorithm.clipping.follows_drive else ""
    return (
        "Clipping cannot act: with one optimizer step per rollout the ratio is 1, so clipping="
        f"{clipping} of ratio={ratio} limits no token{deaf}, and no other clipping would; for several, take a"
        " policy.optimization.mini_batch below rollout.batch_size, or do not compare clip ranges."
    )


def activity(metrics: dict[str, float]) -> dict[str, bool]:
    """Which of the parts that report have acted in this rollout."""
    rules = (name for name in metrics if name.startswith("credit/") and not name.endswith(QUADRANTS))
    acts = {name: metrics[name] > 0 for name in (*rules, *CLIPPING) if name in metrics}
    if any(name in metrics for name in DRIVE):
        acts = {"control": any(metrics.get(name, 0.0) > 0 for name in DRIVE)} | acts
    return acts
