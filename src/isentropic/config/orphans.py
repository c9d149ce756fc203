"""Ranks that would outlive their run, each with its GPU full, since they wait in a collective for others."""

import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

# Seconds in which a rank may still end by itself, as all do at the end of a run: after the last collective it has only
# files to close, and SLURM waits 30 s between its TERM and its KILL.
GRACE = 10.0
# The same for one that fails, and may have logs to upload. Both are but far from what is normal, seconds, and from the
# half hour after which a collective gives up, and no result hangs on them, so they are no settings.
PATIENCE = 300.0


@contextmanager
def ending_in_time() -> Generator[None]:
    """One of several ranks that fails ends, even if a collective that the others never join holds up its exit.

    Not where the process goes on with other jobs.
    """
    try:
        yield
    except BaseException:
        if HydraConfig.get().mode == RunMode.RUN:
            end_within(PATIENCE)
        raise


def end_within(seconds: float) -> None:
    """The system ends this process after that time, whatever it waits for, unless it has no other ranks."""
    distributed = sys.modules.get("torch.distributed")
    if distributed and distributed.is_initialized() and distributed.get_world_size() > 1:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def end_with_first() -> None:
    """In a rank that Lightning has started, sees to it that it does not outlive the rank that started it.

    It would wait in a collective for half an hour, its GPU full.
    """
    if str(HydraConfig.get().job.name).startswith("train_ddp_process_"):  # so Lightning names it
        end_with(os.getppid(), GRACE)


def end_with(parent: int, grace: float) -> None:
    """Ends this process at once, whatever it waits for, so many seconds after its parent."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        time.sleep(grace)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end_with").start()
