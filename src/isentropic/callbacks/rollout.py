"""What came back from the sampler, before the policy learns from it."""

import sys
from pathlib import Path

import torch
from lightning import Callback, LightningModule, Trainer
from rich import print
from rich.markup import escape

from isentropic.batch import RolloutBatch
from isentropic.callbacks.run import rollouts_of
from isentropic.distributed import gather
from isentropic.reductions import masked_mean
from isentropic.runs.files import EXAMPLE, write_whole


class RolloutReport(Callback):
    """Logs what was asked and what is learnt from, and says when that is less than was wanted.

    One prompt and its first answer, as they are read, go to `example.txt`.
    """

    def __init__(self, print_example: bool) -> None:
        self.print_example = print_example  # on the screen too
        self.answered = False  # whether the example has its answer

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.answered = False
        self.write_example(trainer)

    def write_example(self, trainer: Trainer) -> None:
        if trainer.is_global_zero:
            text, folder = rollouts_of(trainer).example(), Path(trainer.default_root_dir)
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / EXAMPLE, text)
            if self.print_example:
                print(escape(text), end="", flush=True)

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: RolloutBatch, batch_idx: int
    ) -> None:
        if not self.answered:
            self.answered = True
            self.write_example(trainer)
            if trainer.is_global_zero and (sentence := rollouts_of(trainer).unrepeatable()):
                print(escape(f"warning: {sentence}"), file=sys.stderr, flush=True)
        report = rollouts_of(trainer).report
        pl_module.log_dict(report | describe(batch) | staleness(batch, rollouts_of(trainer).most_stale))
        if report["rollout/filled"] < 1 and trainer.is_global_zero:
            print(
                f"rollout {batch_idx + 1}: {report['rollout/filled']:.0%} of the groups wanted were kept after "
                f"{report['rollout/tries']:.0f} tries; training on what there is"
            )


def describe(batch: RolloutBatch) -> dict[str, float]:
    """Means over the rows of all ranks."""
    rows = {
        "reward": batch.reward,
        "correct": batch.correct.float(),
        "length": batch.mask.sum(-1).float(),
        "truncated": batch.truncated.float(),
    }
    everything = torch.ones_like(batch.correct)
    return {f"rollout/{name}": float(masked_mean(values, everything)) for name, values in rows.items()}


def staleness(batch: RolloutBatch, most: int) -> dict[str, float]:
    """Of the tokens of all ranks: updates since they were drawn, and the share that is so old; on-policy nothing."""
    if not most:
        return {}
    age = batch.staleness.float()
    oldest = gather(torch.where(batch.mask, age, 0).max()[None]).max()
    shares = {f"rollout/staleness_{k}": float(masked_mean((age == k).float(), batch.mask)) for k in range(most + 1)}
    mean = float(masked_mean(age, batch.mask))
    return {"rollout/staleness": mean, "rollout/staleness_max": float(oldest)} | shares
