"""One live panel while a run lasts: where it is, how it does, when it will be done."""

import textwrap
import threading
import time
from collections import deque
from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities.types import STEP_OUTPUT
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar as Bar
from rich.table import Table
from rich.text import Text

from isentropic import phases
from isentropic.batch import RolloutBatch
from isentropic.callbacks.run import policy_of

Phase = Literal["starting", "sampling", "training", "evaluating", "finishing", "done", "stopped", "failed"]
OVER = ("done", "stopped", "failed")
MARGIN = 4  # columns for the terminal's echo of CTRL-C, which at the edge would break the panel in two
RECENT = 20  # steps that tell how long the next ones take


class Progress(ProgressBar):
    """Live on a terminal; elsewhere a plain line now and then, so that a log stays a log."""

    def __init__(self, seconds: float) -> None:
        """`seconds` between plain lines. Raises ValueError below 0."""
        super().__init__()
        if seconds < 0:
            raise ValueError(f"progress.seconds={seconds} must not be negative")
        self.seconds, self.console = seconds, Console()
        self.live: Live | None = None
        self.enabled = True
        self.phase: Phase = "starting"
        self.part = ""  # of the phase, where it is waited for once: the engine's start, the first update
        self.step, self.steps = 0, 0
        self.metrics: dict[str, float] = {}
        self.began = self.step_began = self.evaluation_began = self.told = time.monotonic()
        self.step_seconds: deque[float] = deque(maxlen=RECENT)
        self.evaluation_seconds: deque[float] = deque(maxlen=RECENT)
        self.every, self.evaluated = 0, 0  # steps between evaluations, where 0 is never, and how many of them are done

    def disable(self) -> None:
        self.enabled = False

    def enable(self) -> None:
        self.enabled = True

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if self.enabled and self.live is None and self.console.is_terminal and not self.console.is_dumb_terminal:
            self.live = Live(get_renderable=self.panel, console=self.console, refresh_per_second=4)
            self.live.start()
        if self.enabled and self.begins not in phases.WATCHERS:
            phases.WATCHERS.append(self.begins)
        self.say(at_once=True)

    def enter(self, phase: Phase) -> None:
        self.phase, self.part = phase, ""
        self.say()

    def begins(self, phase: phases.Phase) -> None:
        """What takes long once, such as "the engine's start", is named while it lasts."""
        if phase.once and phase.name != self.part and phase.thread == threading.main_thread().ident:
            self.part = phase.name
            self.say(at_once=True)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.locate(trainer, pl_module)
        self.evaluated = self.step // self.every if self.every else 0
        self.step_began = time.monotonic()
        self.enter("sampling")

    def locate(self, trainer: Trainer, module: LightningModule) -> None:
        self.step, self.steps = policy_of(module).rollouts, int(trainer.num_training_batches)
        every = trainer.val_check_batch
        self.every = every if isinstance(every, int) and trainer.enable_validation else 0

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: RolloutBatch, batch_idx: int
    ) -> None:
        self.enter("training")

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: RolloutBatch, batch_idx: int
    ) -> None:
        self.step = policy_of(pl_module).rollouts
        now = time.monotonic()
        self.step_seconds.append(now - self.step_began)
        self.step_began = now
        self.read(trainer)
        self.enter(self.after_a_step())

    def after_a_step(self) -> Phase:
        if self.step < self.steps:
            return "sampling"
        return "evaluating" if self.evaluated < planned(self.steps, self.every) else "finishing"

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.evaluation_began = time.monotonic()
        if trainer.state.fn == TrainerFn.FITTING:
            self.locate(trainer, pl_module)
        self.enter("evaluating")

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        now = time.monotonic()
        self.step_began += now - self.evaluation_began
        if not trainer.sanity_checking:
            self.evaluation_seconds.append(now - self.evaluation_began)
        self.evaluated = planned(self.step, self.every)
        self.read(trainer)
        self.enter(self.after_a_step())

    def read(self, trainer: Trainer) -> None:
        """What was logged is shown. Once per step, on the main thread: the display must not touch the accelerator."""
        self.metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.end("done")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.end("stopped" if isinstance(exception, KeyboardInterrupt | SystemExit) else "failed")

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.end("done")

    def end(self, phase: Phase) -> None:
        """The last thing the panel shows stays on the screen; what is printed from now on comes below it."""
        if self.begins in phases.WATCHERS:
            phases.WATCHERS.remove(self.begins)
        if self.phase not in OVER:
            self.phase, self.part = phase, ""
            self.say(at_once=True)
        if self.live is not None:
            self.live.stop()
            self.live = None

    def say(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if self.enabled and self.live is None and (at_once or now - self.told >= self.seconds):
            self.told = now
            print(" | ".join([*self.place(), self.doing(), *self.facts(), self.times()]), flush=True)

    def panel(self) -> Panel:
        head = Table.grid(expand=True, padding=(0, 1))
        head.add_column(no_wrap=True)
        head.add_column(ratio=1)
        head.add_column(no_wrap=True, justify="right")
        bar = Bar(total=self.steps or None, completed=self.step)
        head.add_row(Text("".join(self.place()), style="bold"), bar, Text(self.doing(), style="cyan"))
        width = max(8, self.console.width - MARGIN)
        facts = map(Text, unbroken(self.facts(), width - 4))
        return Panel(Group(head, *facts, Text(self.times(), style="dim")), title="isentropic", width=width)

    def place(self) -> list[str]:
        """Nothing before the number of steps is known, and where nothing is trained."""
        return [f"step {self.step}/{self.steps}"] if self.steps else []

    def doing(self) -> str:
        return f"{self.phase}: {self.part}" if self.part else self.phase

    def facts(self) -> list[str]:
        """What is known so far, in words; nothing is shown before it was measured."""
        m = self.metrics
        facts = [f"reward {m['rollout/reward']:.3f}"] if "rollout/reward" in m else []
        if "entropy/mean" in m:
            target = f" (target {m['control/target']:.3f})" if "control/target" in m else ""
            facts.append(f"entropy {m['entropy/mean']:.3f}{target}")
        scores = {name.removeprefix("eval/"): m[name] for name in sorted(m) if name.startswith("eval/") and "@" in name}
        facts += [f"{name} {value:.3f}" for name, value in scores.items() if not name.endswith(("_low", "_high"))]
        if "throughput/tokens_per_second" in m:
            facts.append(f"{m['throughput/tokens_per_second']:,.0f} tokens/s")
        return facts

    def times(self) -> str:
        elapsed = f"{clock(time.monotonic() - self.began)} elapsed"
        if self.phase in OVER or not self.steps:
            return elapsed
        evaluations = planned(self.steps, self.every) - self.evaluated
        left = time_left(self.steps - self.step, evaluations, self.step_seconds, self.evaluation_seconds)
        return f"{elapsed}, time left not known yet" if left is None else f"{elapsed}, about {clock(left)} left"


def unbroken(facts: list[str], width: int) -> list[str]:
    """Lines that end between facts, not within one."""
    lines = textwrap.wrap("   ".join(fact.replace(" ", "\xa0") for fact in facts), width)
    return [line.replace("\xa0", " ") for line in lines]


def planned(step: int, every: int) -> int:
    """Evaluations after the first so many steps, of which the one after the last step is always one."""
    return -(-step // every) if every else 0


def time_left(
    steps: int, evaluations: int, step_seconds: Sequence[float], evaluation_seconds: Sequence[float]
) -> float | None:
    """Steps and evaluations each at their own recent pace; None while one that is to come was never timed.

    The first step warms up and is left out once there are others.
    """
    if (steps and not step_seconds) or (evaluations and not evaluation_seconds):
        return None
    pace = list(step_seconds)[1:] or list(step_seconds)
    return steps * (fmean(pace) if steps else 0) + evaluations * (fmean(evaluation_seconds) if evaluations else 0)


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
