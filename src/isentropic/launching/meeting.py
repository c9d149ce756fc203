"""Ranks of one machine find each other where no other machine, and so no stranger, can come between them."""

import os
from collections.abc import Generator
from contextlib import contextmanager

from lightning import Trainer
from lightning.pytorch.strategies import ParallelStrategy
from lightning.pytorch.strategies.launchers.multiprocessing import _MultiProcessingLauncher  # pyright: ignore

from isentropic.config.entry import rank
from isentropic.distributed import keep_to_this_machine, meeting_place


@contextmanager
def a_meeting(trainer: Trainer) -> Generator[None]:
    """Inside, ranks may start and meet. Those of several machines, and of torchrun, meet where these say."""
    strategy = trainer.strategy
    if trainer.world_size == 1 or trainer.num_nodes > 1 or not isinstance(strategy, ParallelStrategy):
        yield
        return
    keep_to_this_machine()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    place, forks = strategy.cluster_environment, isinstance(strategy.launcher, _MultiProcessingLauncher)
    store = meeting_place(place.main_address, place.main_port) if place and rank() == 0 and not forks else None
    yield
    del store  # it answers as long as it is held
