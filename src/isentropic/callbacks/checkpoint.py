"""The run as it stands after a rollout, in one place that is never half-written."""

import os
import shutil
from pathlib import Path
from typing import Any

from lightning import LightningModule, Trainer
from lightning.pytorch import callbacks
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning.pytorch.utilities.types import STEP_OUTPUT
from torch.distributed.checkpoint.api import CheckpointException

from isentropic.batch import RolloutBatch
from isentropic.callbacks.graceful_stop import LIMIT, STOP, GracefulStop, leave
from isentropic.callbacks.run import policy_of
from isentropic.runs.files import LAST_CHECKPOINT

FOLDER = "rollout_"  # of a sharded one, beside the link to it


class Checkpoint(callbacks.Checkpoint):
    """Writes `checkpoints/last.ckpt` every so many rollouts, after the last one, and when asked to stop.

    Lightning's own counts optimizer steps, of which a rollout has several. Asked by a signal, it lets the rollout end
    on all ranks, saves and leaves. Raises OSError where the disk does not take it.

    A sharded one is a folder, to which `last.ckpt` is a link: a link is changed in one step, a folder is not.
    """

    def __init__(self, every: int, sharded: bool) -> None:
        """`every` in rollouts. Raises ValueError below 1."""
        if every < 1:
            raise ValueError(f"checkpoint.every={every} must be at least 1 rollout")
        self.every, self.sharded = every, sharded
        self.saved = 0  # rollouts in the last good checkpoint
        self.stop = GracefulStop()

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Before the engine starts, which may take minutes, and before Lightning takes the warning for itself."""
        self.stop.reset()
        if stage == "fit":
            self.stop.listen(*LIMIT)

    def check(self, trainer: Trainer) -> None:
        """Raises ValueError where no rank has a shard of its own to write."""
        if self.sharded and not isinstance(trainer.strategy, ModelParallelStrategy):
            raise ValueError(
                "callbacks.checkpoint.sharded=true is for trainer=fsdp, where each rank has a part of the policy; "
                "leave it false"
            )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.saved = policy_of(pl_module).rollouts
        self.stop.listen(*STOP)
        if number := self.stop.agreed():
            leave(number)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: RolloutBatch, batch_idx: int
    ) -> None:
        number = self.stop.agreed()
        last = batch_idx + 1 == trainer.num_training_batches
        if number or last or policy_of(pl_module).rollouts % self.every == 0:
            self.save(trainer, pl_module)
        if number:
            trainer._logger_connector.update_train_step_metrics()  # pyright: ignore[reportPrivateUsage]  # or this rollout's row would be lost
            leave(number)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        # else a finished run could not go on when asked for more rollouts
        checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]["is_last_batch"] = False

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.stop.release()
        stopped = isinstance(exception, KeyboardInterrupt | SystemExit)
        # ranks that were interrupted anywhere cannot save together
        if stopped and trainer.world_size == 1 and policy_of(pl_module).rollouts > self.saved:
            self.save(trainer, pl_module)
        if stopped and trainer.is_global_zero and path_of(trainer).exists():
            print(f"rollout {self.saved} is saved; go on with ckpt_path={path_of(trainer)}", flush=True)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.stop.release()

    def save(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Beside the last good one first, then in its place."""
        path, rollouts = path_of(trainer), policy_of(pl_module).rollouts
        folder, unfinished = path.parent, path.with_name("last.ckpt.unfinished")
        try:
            if trainer.is_global_zero:
                folder.mkdir(parents=True, exist_ok=True)
                remove(unfinished)
            trainer.strategy.barrier()
            trainer.save_checkpoint(unfinished)
            if trainer.is_global_zero:
                replace(unfinished, path, rollouts)
        except (OSError, RuntimeError, CheckpointException) as error:
            if trainer.is_global_zero:
                remove(unfinished)
            kept = f"that of rollout {self.saved} is intact in {path}" if path.exists() else "there is none yet"
            raise OSError(
                f"the checkpoint of rollout {rollouts} could not be written ({reason(error)}); {kept}; free"
                f" some space in {folder} and resume"
            ) from error
        trainer.strategy.barrier()
        self.saved = rollouts


def reason(error: BaseException) -> str:
    """Of several ranks that failed, what the first says."""
    if isinstance(error, CheckpointException):
        error = next(iter(error.failures.values()))[0]
    return " ".join(str(error).split())


def path_of(trainer: Trainer) -> Path:
    return Path(trainer.default_root_dir) / LAST_CHECKPOINT


def replace(new: Path, path: Path, count: int) -> None:
    """At no time is there neither the old nor the new at `path`, and the old goes last. `count` rollouts are in it."""
    if path.is_dir() and not path.is_symlink():  # a folder that was copied here
        os.replace(path, path.with_name(f"{FOLDER}copied"))
    if not new.is_dir():
        kept = path
        os.replace(new, path)
    else:
        kept = path.with_name(f"{FOLDER}{count}")
        if path.is_symlink() and path.resolve() == kept.resolve():
            kept = path.with_name(f"{FOLDER}{count}_again")
        remove(kept)
        os.replace(new, kept)
        link = path.with_name("last.ckpt.link")
        remove(link)
        link.symlink_to(kept.name)
        os.replace(link, path)
    for other in path.parent.glob(f"{FOLDER}*"):
        if other != kept:
            remove(other)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
