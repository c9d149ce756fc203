"""How much of the card is held, while the policy learns and while the sampler answers."""

from threading import Event, Thread
from time import monotonic

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.types import STEP_OUTPUT

from isentropic.batch import RolloutBatch
from isentropic.callbacks.run import seconds_of
from isentropic.distributed import gather

GIB = 2**30


class Memory(Callback):
    """Listed before the callback of the sampler, so that a batch starts before it sleeps and ends before it wakes.

    In GiB, of the rank that holds most. `allocated` and `reserved` are torch's, which counts a sleeping engine as if it
    were awake; `used` is the card's own account, of all its processes; `slept` is what the sampler gave back. Nothing
    on a CPU.
    """

    def __init__(self, interval: float) -> None:
        """Raises ValueError for an interval that is not above 0."""
        if not interval > 0:
            raise ValueError(f"memory.interval={interval} must be above 0 seconds")
        self.interval = interval
        self.watch: Watch | None = None
        self.rollout: dict[str, float] = {}  # peaks of the last one
        self.awake = 0.0  # used when its batch came

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if pl_module.device.type == "cuda":
            self.watch = Watch(pl_module.device, self.interval)

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: RolloutBatch, batch_idx: int
    ) -> None:
        if self.watch:
            self.awake = self.watch.used()
            self.rollout = self.watch.peaks(0.0)
            self.watch.begin()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: RolloutBatch, batch_idx: int
    ) -> None:
        if self.watch:
            asleep = seconds_of(trainer).sleep
            slept = max(0.0, self.awake - self.watch.least(asleep))
            found = {f"rollout_{name}": size for name, size in self.rollout.items()}
            found |= {f"update_{name}": size for name, size in self.watch.peaks(asleep).items()} | {"slept": slept}
            self.watch.begin()
            mine = torch.tensor(list(found.values()), device=pl_module.device) / GIB
            most = gather(mine).view(-1, len(found)).amax(0).tolist()
            pl_module.log_dict({f"memory/{name}": size for name, size in zip(found, most, strict=True)})

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.release()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.release()  # as there is no teardown then

    def release(self) -> None:
        if self.watch:
            self.watch.end()
            self.watch = None


class Watch:
    """Looks at a card every `interval` seconds, from a thread of its own."""

    def __init__(self, device: torch.device, interval: float) -> None:
        self.device, self.interval, self.over = device, interval, Event()
        self.seen: list[tuple[float, int]] = []  # seconds since the beginning, bytes
        self.begin()
        self.thread = Thread(target=self.look, daemon=True)
        self.thread.start()

    def begin(self) -> None:
        """Forgets what was before."""
        torch.cuda.reset_peak_memory_stats(self.device)
        self.began, self.seen = monotonic(), []

    def look(self) -> None:
        while not self.over.wait(self.interval):
            self.seen.append((monotonic() - self.began, self.used()))

    def used(self) -> int:
        free, total = torch.cuda.mem_get_info(self.device)
        return total - free

    def after(self, seconds: float) -> list[int]:
        return [size for moment, size in self.seen if moment >= seconds] + [self.used()]

    def least(self, seconds: float) -> int:
        return min(self.after(seconds))

    def peaks(self, seconds: float) -> dict[str, float]:
        """Bytes since the beginning; of what is used, since so many seconds after it."""
        return {
            "allocated": torch.cuda.max_memory_allocated(self.device),
            "reserved": torch.cuda.max_memory_reserved(self.device),
            "used": max(self.after(seconds)),
        }

    def end(self) -> None:
        self.over.set()
        self.thread.join()
