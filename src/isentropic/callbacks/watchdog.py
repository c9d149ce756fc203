"""Says what a run waits for when a part of it takes far longer than it did, and ends it where that is wanted."""

import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import FrameType

from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.types import STEP_OUTPUT

from isentropic.batch import RolloutBatch
from isentropic.callbacks.run import policy_of
from isentropic.phases import RUNNING, Phase, innermost, usual
from isentropic.runs.status import read_status, write_status

WAKE = signal.SIGVTALRM if hasattr(signal, "SIGVTALRM") else None  # interrupts what the main thread waits in
GRACE = 10.0  # seconds in which an interrupted run ends; one inside of a collective cannot be interrupted
SHOWN = 12  # innermost frames of a stack


class Watchdog(Callback):
    """Each rank watches itself, so that of several that wait for one all say where they wait.

    Raises OverdueError after `timeout`, in the main thread where that can be interrupted; else the process is ended.
    The last checkpoint is good in either case, and on one rank the rollouts since then are saved too.
    """

    def __init__(self, factor: float, least: float, timeout: float | None) -> None:
        """A phase is told of after `factor` times its median, and `least` seconds. Raises ValueError for no limit."""
        if not factor > 1:
            raise ValueError(f"watchdog.factor={factor} must be above 1, as half of all times are above the median")
        for name, seconds in (("least", least), ("timeout", timeout)):
            if seconds is not None and not seconds > 0:
                raise ValueError(f"watchdog.{name}={seconds} seconds must be above 0")
        self.factor, self.least, self.timeout = factor, least, timeout
        self.told: set[Phase] = set()
        self.place = ""  # which rank this is, where there are several
        self.folder: Path | None = None  # on rank 0, whose status it is
        self.rollouts = 0
        self.overdue: str | None = None  # why the run is to end
        self.since = 0.0
        self.over = threading.Event()
        self.before: signal.Handlers | object = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        ranks = trainer.world_size
        self.place = f"rank {trainer.global_rank} of {ranks}: " if ranks > 1 else ""
        self.folder = Path(trainer.default_root_dir) if trainer.is_global_zero else None
        self.over = threading.Event()
        if WAKE is not None and threading.current_thread() is threading.main_thread():
            self.before = signal.signal(WAKE, self.interrupt)
        threading.Thread(target=self.watch, args=(self.over,), daemon=True, name="watchdog").start()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.rollouts = policy_of(pl_module).rollouts

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: RolloutBatch, batch_idx: int
    ) -> None:
        self.rollouts = policy_of(pl_module).rollouts

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.stop()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.stop()

    def stop(self) -> None:
        self.over.set()
        if WAKE is not None and self.before is not None:
            signal.signal(WAKE, self.before)  # pyright: ignore[reportArgumentType]
            self.before = None

    def watch(self, over: threading.Event) -> None:
        limits = [self.least] + ([] if self.timeout is None else [self.timeout])
        while not over.wait(min(1.0, min(limits) / 4)):
            self.look(monotonic())

    def look(self, now: float) -> None:
        for phase in innermost():
            seconds, limit = now - phase.began, self.limit(phase.name)
            if seconds > limit and phase not in self.told:
                self.told |= {one for one in RUNNING if one.thread == phase.thread}  # those around it are late with it
                self.say(f"warning: {self.sentence(phase, seconds)}\n{stack_of(phase.thread)}")
        self.told &= set(RUNNING)
        if self.timeout is not None:
            self.check(now, self.timeout)

    def limit(self, name: str) -> float:
        """In seconds. Of a phase that has never ended, `least` is taken for the median."""
        median = usual(name)
        return self.factor * self.least if median is None else max(self.least, self.factor * median)

    def sentence(self, phase: Phase, seconds: float) -> str:
        median = usual(phase.name)
        before = "has never ended before" if median is None else f"took {median:.3g} s in the median"
        return (
            f"{self.place}in rollout {self.rollouts + 1}, {phase.name} takes {seconds:.3g} s by now and {before}; "
            f"it waits here, the innermost last:"
        )

    def check(self, now: float, timeout: float) -> None:
        """The outermost phase of any thread counts; what cannot be interrupted is ended after GRACE."""
        late = next((phase for phase in list(RUNNING) if now - phase.began > timeout), None)
        if self.overdue is None and late is not None:
            self.since = now
            self.overdue = (
                f"{self.place}callbacks.watchdog.timeout: {late.name} of rollout {self.rollouts + 1} takes more than "
                f"{timeout:g} s; go on from the last checkpoint, or raise it"
            )
            self.say(stack_of(late.thread))
            if WAKE is not None and self.before is not None:
                signal.pthread_kill(threading.main_thread().ident or 0, WAKE)
        elif self.overdue is not None and now - self.since > GRACE:
            self.end(self.overdue)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.overdue:
            raise OverdueError(self.overdue)

    def end(self, why: str) -> None:
        """Of a process whose main thread cannot be interrupted."""
        self.say(f"error: {why}")
        if self.folder and (status := read_status(self.folder)):
            status.status, status.error = "failed", why
            with suppress(OSError):
                write_status(self.folder, status)
        os._exit(1)

    def say(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")  # at once, as ranks share it
        sys.stderr.flush()


def stack_of(thread: int) -> str:
    """Where a thread is, as a traceback shows it."""
    frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]
    return "".join(traceback.format_stack(frame)[-SHOWN:]).rstrip() if frame else "  (its thread has ended)"


class OverdueError(RuntimeError):
    """A run that was ended because a part of it took too long."""
