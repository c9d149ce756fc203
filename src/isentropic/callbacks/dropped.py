"""Rules that throw away much of what was sampled say so, once: learning from little looks like learning slowly."""

import sys
from typing import Any

from lightning import Callback, LightningModule, Trainer


class Dropped(Callback):
    """Reads the logged shares of tokens that credit rules leave without weight."""

    def __init__(self, limit: float) -> None:
        """Raises ValueError for a limit that is no share."""
        if not 0 < limit <= 1:
            raise ValueError(f"dropped.limit={limit} is a share of tokens: above 0 and at most 1")
        self.limit = limit
        self.told: set[str] = set()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        for kind, sentence in self.sentences(metrics).items():
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
