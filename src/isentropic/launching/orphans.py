"""Ranks that Lightning starts, and does not end where the first of them fails."""

import os
import threading
import time

from hydra.core.hydra_config import HydraConfig

GRACE = 10.0  # seconds in which a rank may still end by itself, as all do at the end of a run


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
