"""The run as it stands after a rollout, in one place that is never half-written."""

import errno
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from lightning import LightningModule, Trainer
from lightning.pytorch import callbacks
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning.pytorch.utilities.types import STEP_OUTPUT
from torch.distributed.checkpoint.api import CheckpointException

from isentropic.batch import RolloutBatch
from isentropic.callbacks.graceful_stop import GracefulStop, leave
from isentropic.callbacks.run import callbacks_of, earlier_metrics, policy_of
from isentropic.callbacks.watchdog import OverdueError
from isentropic.policy.checkpoint_files import on_disk, seal
from isentropic.runs import files
from isentropic.runs.metrics import read_metrics
from isentropic.runs.status import ASKS, WARNS
from isentropic.state import Memory

OLDER = "rollout_*.ckpt", "rollout_*[0-9]", "rollout_copied"  # those of before had no ending
SAVED = "rollout_{}.ckpt"  # a file, or the folder of a sharded one, to which last.ckpt and best.ckpt are links


class Checkpoint(callbacks.Checkpoint):
    """Writes `checkpoints/last.ckpt` every so many rollouts, after the last one, and when asked to stop.

    Lightning's own counts optimizer steps, of which a rollout has several. Asked by a signal, it lets the rollout end
    on all ranks, saves and leaves. Raises OSError where the disk does not take it.

    `last.ckpt` is a link to `rollout_<n>.ckpt`, and so is `best.ckpt`: a link is changed in one step, a folder is not.
    """

    def __init__(self, every: int, sharded: bool, keep: int, best: str | None) -> None:
        """`every` in rollouts. Of those before the last, `keep` stay, and the one where the metric `best` was highest.

        Raises ValueError below 1 rollout, and for fewer than none.
        """
        if every < 1:
            raise ValueError(f"checkpoint.every={every} must be at least 1 rollout")
        if keep < 0:
            raise ValueError(f"checkpoint.keep={keep} must not be negative; 0 keeps the last alone")
        self.every, self.sharded, self.keep, self.best = every, sharded, keep, best
        self.saved = 0  # rollouts in the last good checkpoint
        self.learning = False  # in the midst of a rollout's updates, of which no half is saved
        self.row: dict[str, float] = {}  # of metrics.csv, of the rollout in the checkpoint
        self.stop = GracefulStop()
        self.memory = Memory({})  # of callbacks of one's own

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Before the engine starts, which may take minutes, and before Lightning takes the warning for itself."""
        self.stop.reset()
        if stage == "fit":
            self.stop.listen(*WARNS)

    def check(self, trainer: Trainer, split: str, scores: Collection[str]) -> None:
        """Raises ValueError where no rank has a shard of its own to write, and for a choice by the `split` test.

        `scores` are the names under which evaluations are logged.
        """
        if self.best and self.best not in scores:
            there = ", ".join(sorted(scores)) or "none"
            raise ValueError(f"callbacks.checkpoint.best={self.best} is no score of an evaluation; there are {there}")
        if self.best and split == "test":
            raise ValueError(
                f"callbacks.checkpoint.best={self.best} would choose a checkpoint by the test split, whose score of it "
                "would be too high; take rollout.evaluation.split=validation"
            )
        if self.sharded and not isinstance(trainer.strategy, ModelParallelStrategy):
            raise ValueError(
                "callbacks.checkpoint.sharded=true is for trainer=fsdp, where each rank has a part of the policy; "
                "leave it false"
            )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.saved, self.learning = policy_of(pl_module).rollouts, False
        self.memory = Memory({f"callback {type(one).__name__}": one for one in callbacks_of(trainer) if is_own(one)})
        self.write_lost_row(trainer)
        self.stop.listen(*ASKS)
        if number := self.stop.agreed():
            leave(number)

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: RolloutBatch, batch_idx: int
    ) -> None:
        self.learning = True

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: RolloutBatch, batch_idx: int
    ) -> None:
        self.learning = False
        number, rollouts = self.stop.agreed(), policy_of(pl_module).rollouts
        last = batch_idx + 1 == trainer.num_training_batches
        judged = (self.best or trainer.early_stopping_callbacks) and evaluated_at(trainer, rollouts)
        if number or last or rollouts % self.every == 0 or judged:
            self.save(trainer, pl_module)
        if number:
            trainer._logger_connector.update_train_step_metrics()  # pyright: ignore[reportPrivateUsage]  # or this rollout's row would be lost
            leave(number)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Where the policy is the one that was just saved, and the best so far."""
        rollouts = policy_of(pl_module).rollouts
        if not self.best or not trainer.is_global_zero or rollouts != self.saved or rollouts == 0:
            return
        score = float(trainer.callback_metrics[self.best])
        link, told = (path_of(trainer).with_name(name) for name in ("best.ckpt", "best.json"))
        before = json.loads(told.read_text())["score"] if told.exists() and link.exists() else -math.inf
        if score > before:
            point(link, path_of(trainer).resolve())
            files.write_whole(told, json.dumps({"rollout": rollouts, "metric": self.best, "score": score}) + "\n")

    @property
    def state_key(self) -> str:
        return "checkpoint"  # of a subclass too

    def state_dict(self) -> dict[str, Any]:
        return {"row": self.row}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.row = state_dict.get("row", {})

    def write_lost_row(self, trainer: Trainer) -> None:
        """Of a run that was killed between its checkpoint and the row of that rollout."""
        if not self.row or not trainer.is_global_zero:
            return
        written = earlier_metrics(trainer)
        if not written:
            return
        steps = read_metrics(written, "|".join(map(re.escape, self.row.keys() - {"step"}))).series
        if not any(int(self.row["step"]) in one.steps for one in steps.values()):
            for logger in trainer.loggers:
                logger.log_metrics(self.row, step=int(self.row["step"]))

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        # else a finished run could not go on when asked for more rollouts
        checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]["is_last_batch"] = False

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.stop.release()
        stopped = isinstance(exception, KeyboardInterrupt | SystemExit | OverdueError)
        # ranks that were interrupted anywhere cannot save together, and no run goes on from half of a rollout's updates
        between = not self.learning and policy_of(pl_module).rollouts > self.saved
        if stopped and trainer.world_size == 1 and between:
            self.save(trainer, pl_module)
        if stopped and trainer.is_global_zero and path_of(trainer).exists():
            print(f"rollout {self.saved} is saved; go on with ckpt_path={path_of(trainer)}", flush=True)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.stop.release()

    def save(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Beside the last good one first, then in its place."""
        path, rollouts = path_of(trainer), policy_of(pl_module).rollouts
        folder, unfinished = path.parent, path.with_name("last.ckpt.unfinished")
        self.row = row_of(trainer)
        self.warn_of_the_forgetful(trainer)
        try:
            if trainer.is_global_zero:
                folder.mkdir(parents=True, exist_ok=True)
                remove(unfinished)
            trainer.strategy.barrier()
            trainer.save_checkpoint(unfinished)
            if trainer.is_global_zero:
                if unfinished.is_dir():
                    seal(unfinished)
                replace(unfinished, path, rollouts, self.keep)
        except (OSError, RuntimeError, CheckpointException) as error:
            if trainer.is_global_zero:
                remove(unfinished)
            kept = f"that of rollout {self.saved} is intact in {path}" if path.exists() else "there is none yet"
            advice = f"free some space in {folder}" if is_full(error) else f"see to {folder}"
            raise OSError(
                f"the checkpoint of rollout {rollouts} could not be written ({reason(error)}); {kept}; {advice} and "
                "resume"
            ) from error
        trainer.strategy.barrier()
        self.saved = rollouts

    def warn_of_the_forgetful(self, trainer: Trainer) -> None:
        """Once. A part that forgets is refused; what callbacks count may be of no weight."""
        for sentence in self.memory.forgotten() if trainer.is_global_zero else ():
            print(f"warning: {sentence}", file=sys.stderr, flush=True)
            self.memory = Memory({})


def is_own(callback: callbacks.Callback) -> bool:
    """Whether no part of it is of this package or of Lightning's collection, which save what they must."""
    kinds = [kind.__module__ for kind in type(callback).__mro__ if kind is not callbacks.Callback]
    return not any(kind.startswith(("isentropic.", "lightning.", "pytorch_lightning.")) for kind in kinds)


def reason(error: BaseException) -> str:
    return " ".join(str(cause(error)).split())


def cause(error: BaseException) -> BaseException:
    """Of several ranks that failed, what the first says; of torch's writer that stumbled, what the disk said."""
    if isinstance(error, CheckpointException):
        error = next(iter(error.failures.values()))[0]
    below: BaseException | None = error
    while below is not None and not isinstance(below, OSError):
        below = below.__context__
    return below or error


def is_full(error: BaseException) -> bool:
    return getattr(cause(error), "errno", None) not in (errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOENT, errno.EIO)


def path_of(trainer: Trainer) -> Path:
    return Path(trainer.default_root_dir) / files.LAST_CHECKPOINT


def row_of(trainer: Trainer) -> dict[str, float]:
    """What is about to be logged of this rollout."""
    logged = trainer._logger_connector.metrics["log"]  # pyright: ignore[reportPrivateUsage]
    return {name: float(value) for name, value in logged.items()}


def evaluated_at(trainer: Trainer, rollouts: int) -> bool:
    every = trainer.val_check_batch
    return isinstance(every, int) and rollouts % every == 0


def replace(new: Path, path: Path, count: int, keep: int) -> None:
    """At no time is there neither the old nor the new at `path`, and the old goes last. `count` rollouts are in it."""
    if path.is_dir() and not path.is_symlink():  # a folder that was copied here
        os.replace(path, path.with_name(SAVED.format("copied")))
    kept = path.with_name(SAVED.format(count))
    if new.is_dir() and path.is_symlink() and path.resolve() == kept.resolve():
        kept = path.with_name(SAVED.format(f"{count}_again"))
    if new.is_dir() or kept.is_dir():
        remove(kept)
    os.replace(new, kept)
    point(path, kept)
    used = {kept.name, path.with_name("best.ckpt").resolve().name}
    others = [one for pattern in OLDER for one in path.parent.glob(pattern) if one.name not in used]
    for other in sorted(others, key=lambda one: one.stat().st_mtime_ns, reverse=True)[keep:]:
        remove(other)


def point(path: Path, at: Path) -> None:
    """Makes a link of it, in one step, that the disk holds when this returns."""
    link = path.with_name(f"{path.name}.link")
    remove(link)
    link.symlink_to(at.name)
    os.replace(link, path)
    on_disk(path.parent)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
