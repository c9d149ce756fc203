"""From the overrides of a sweep's jobs to their folders and command lines, without composing each."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from hydra.core.config_loader import ConfigLoader
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from isentropic.config.build import BadInput
from isentropic.config.names import FIXED, job_name, quote
from isentropic.launching import Job
from isentropic.runs.files import LAST_CHECKPOINT

NOT_OF_A_JOB = re.compile(r"hydra([./](mode|sweep|sweeper|launcher)\b|\.run\.dir=|\.job\.num=)")


def plan(config: DictConfig, loader: ConfigLoader, overrides: Sequence[Sequence[str]], first: int) -> list[Job]:
    """The jobs of a sweep's config. Raises BadInput where two of them would share a folder."""
    sweep = Path(config.hydra.sweep.dir).absolute()
    written = str(cast(dict[str, Any], OmegaConf.to_container(config.hydra.sweep))["subdir"])
    make, jobs = job_factory(config, sweep), dict[str, Job]()
    for number, own in enumerate(map(list, overrides), first):
        name = folder_name(written, own, number)
        if "${" in name:  # it refers to settings
            cfg = compose(config, loader, own)
            with read_write(cfg), open_dict(cfg):
                cfg.hydra.job.num = cfg.hydra.job.id = number
            name = str(cfg.hydra.sweep.subdir)
        if name in jobs:
            raise BadInput(
                f"two jobs of this sweep have the folder {name}: {' '.join(own)} and {' '.join(jobs[name].overrides)}; "
                "name each value once, or let hydra.sweep.subdir tell them apart"
            )
        jobs[name] = make(name, own, number)
    return list(jobs.values())


def folder_name(written: str, own: list[str], number: int) -> str:
    """As far as it is known without composing the job, which takes a fifth of a second."""
    text = written.replace("${hydra.job.num}", str(number))
    return text.replace("${job_name:${hydra.overrides.task}}", job_name(own, FIXED))


def compose(config: DictConfig, loader: ConfigLoader, own: Sequence[str]) -> DictConfig:
    """The whole config of one job, as Hydra makes it."""
    return loader.load_sweep_config(config, list(own))


def job_factory(config: DictConfig, sweep: Path) -> Callable[[str, list[str], int], Job]:
    """From a job's name, overrides and number to the job; what all share is computed once."""
    hydra = config.hydra
    extra = next((s.path for s in hydra.runtime.config_sources if s.provider == "command-line"), None)
    start = [sys.executable, *entry_point(), "-cn", str(hydra.job.config_name), *(["-cd", str(extra)] if extra else [])]
    given = cast(list[str], OmegaConf.to_container(hydra.overrides.hydra))  # as written, not what ${...} comes to here
    shared = [line for line in given if not NOT_OF_A_JOB.match(line)]
    shared += [f"hydra.sweep.dir={quote(str(sweep))}", "hydra.mode=RUN"]
    if not any(line.startswith("hydra/job_logging") for line in shared):
        shared.append("hydra/job_logging=stdout")  # its file would be the one that the output goes to
    log, resumes = f"{hydra.job.name}.log", "ckpt_path" in config and not OmegaConf.is_missing(config, "ckpt_path")
    initial_ckpt = config.ckpt_path if resumes else None

    def make(name: str, own: list[str], number: int) -> Job:
        folder = sweep / name
        overrides = _with_checkpoint(own, folder, initial_ckpt) if resumes else own
        places = [f"hydra.run.dir={quote(str(folder))}", f"hydra.sweep.subdir={quote(name)}", f"hydra.job.num={number}"]
        return Job(name, folder, tuple(own), (*start, *overrides, *shared, *places), folder / log)

    return make


def _with_checkpoint(own: list[str], folder: Path, initial_ckpt: str | None) -> list[str]:
    """Resumes from the job's own checkpoint if it has one, else from what was asked for."""
    others = [line for line in own if line.partition("=")[0] != "ckpt_path"]
    given = initial_ckpt is not None or len(others) < len(own)
    return own if given and not (folder / LAST_CHECKPOINT).exists() else [*others, "ckpt_path=last"]


def entry_point() -> list[str]:
    """What this process runs, for a new one to run."""
    main: Any = sys.modules["__main__"]
    return ["-m", main.__spec__.name] if main.__spec__ else [os.path.abspath(sys.argv[0])]
