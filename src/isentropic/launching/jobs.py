"""From the overrides of a sweep's jobs to their folders and command lines, without composing each."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from isentropic.build import BadInput
from isentropic.launching import Job
from isentropic.launching.names import quote

CHEAP = {"job_name", "hydra.overrides.task", "hydra.job.num"}  # what a folder's name may hold without a composition
NOT_OF_A_JOB = re.compile(r"hydra([./](mode|sweep|sweeper|launcher)\b|\.run\.dir=|\.job\.num=)")


def plan(config: DictConfig, loader: ConfigLoader, overrides: Sequence[Sequence[str]], first: int) -> list[Job]:
    """The jobs of a sweep's config. Raises BadInput where two of them would share a folder."""
    sweep = Path(config.hydra.sweep.dir).absolute()
    jobs: dict[Path, Job] = {}
    for number, own in enumerate(overrides, first):
        name = _name(config, loader, list(own), number)
        job = _job(config, sweep, name, list(own), number)
        if job.folder in jobs:
            other = " ".join(jobs[job.folder].overrides)
            raise BadInput(
                f"two jobs of this sweep have the folder {name}: {' '.join(own)} and {other}; name each value once, or "
                "let hydra.sweep.subdir tell them apart"
            )
        jobs[job.folder] = job
    return list(jobs.values())


def _name(config: DictConfig, loader: ConfigLoader, own: list[str], number: int) -> str:
    written = str(OmegaConf.to_container(config.hydra.sweep)["subdir"])  # pyright: ignore
    if set(re.findall(r"\$\{([^:}]+)", written)) <= CHEAP:
        job = OmegaConf.create({"hydra": {"overrides": {"task": own}, "job": {"num": number}, "subdir": written}})
        return str(job.hydra.subdir)
    job = compose(config, loader, own)
    with read_write(job), open_dict(job):
        job.hydra.job.num = job.hydra.job.id = number
    return str(job.hydra.sweep.subdir)


def compose(config: DictConfig, loader: ConfigLoader, own: Sequence[str]) -> DictConfig:
    """The whole config of one job, as Hydra makes it."""
    return loader.load_sweep_config(config, list(own))


def _job(config: DictConfig, sweep: Path, name: str, own: list[str], number: int) -> Job:
    folder = sweep / name
    hydra = config.hydra
    extra = next((s.path for s in hydra.runtime.config_sources if s.provider == "command-line"), None)
    line = [sys.executable, *program(), "-cn", str(hydra.job.config_name), *(["-cd", str(extra)] if extra else [])]
    line += [*_resumed(config, folder, own), *(o for o in hydra.overrides.hydra if not NOT_OF_A_JOB.match(o))]
    line += [f"hydra.run.dir={quote(str(folder))}", f"hydra.sweep.dir={quote(str(sweep))}"]
    line += [f"hydra.sweep.subdir={quote(name)}", f"hydra.job.num={number}", "hydra.mode=RUN"]
    if not any(o.startswith("hydra/job_logging") for o in hydra.overrides.hydra):
        line.append("hydra/job_logging=stdout")  # its file would be the one that the output goes to
    return Job(name, folder, tuple(own), tuple(line), folder / f"{hydra.job.name}.log")


def _resumed(config: DictConfig, folder: Path, own: list[str]) -> list[str]:
    """Goes on from the job's own checkpoint, where it has one, and else from what was asked for."""
    if "ckpt_path" not in config or OmegaConf.is_missing(config, "ckpt_path"):
        return own
    others = [line for line in own if line.partition("=")[0] != "ckpt_path"]
    given = config.ckpt_path is not None or len(others) < len(own)
    return own if given and not (folder / "checkpoints" / "last.ckpt").exists() else [*others, "ckpt_path=last"]


def program() -> list[str]:
    """What this process runs, for a new one to run."""
    main: Any = sys.modules["__main__"]
    return ["-m", main.__spec__.name] if main.__spec__ else [os.path.abspath(sys.argv[0])]
