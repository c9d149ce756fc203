"""A job in a process that runs others too, as Hydra's own launcher makes it, and the traces that it must not leave."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, read_write

LAUNCHED = ("LOCAL_RANK", "NODE_RANK", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@contextmanager
def a_process_of_its_own(folder: Path) -> Generator[None]:
    """Lightning starts further ranks with this process's arguments, and leaves its variables and process group behind.

    Inside a sweep the ranks must run this job alone, in its folder, and the next job must find nothing of this one.
    """
    environment, arguments = {name: os.environ.get(name) for name in LAUNCHED}, sys.argv
    job = HydraConfig.get()
    if job.mode == RunMode.MULTIRUN:
        extra = extra_configs()
        own = [line for line in job.overrides.hydra if not line.startswith(("hydra.mode=", "hydra.sweep"))]
        sys.argv = [arguments[0], "-cn", str(job.job.config_name), *(["-cd", extra] if extra else [])]
        sys.argv += [*task_overrides(), *own]
        with read_write(cast(DictConfig, job)):
            job.run.dir = str(folder)
    try:
        yield
        if (distributed := sys.modules.get("torch.distributed")) and distributed.is_initialized():
            distributed.destroy_process_group()
    finally:
        sys.argv = arguments
        for name, value in environment.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        if wandb := sys.modules.get("wandb"):
            wandb.finish()


def extra_configs() -> str | None:
    return next((s.path for s in HydraConfig.get().runtime.config_sources if s.provider == "command-line"), None)


def task_overrides() -> list[str]:
    """As written on the command line, not what `${...}` in them comes to."""
    return cast(list[str], OmegaConf.to_container(HydraConfig.get().overrides.task))
