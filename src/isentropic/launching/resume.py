"""Which jobs of a sweep are to be run: not what is done, still runs somewhere, or was run with other settings."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from isentropic.config.build import leaves
from isentropic.launching import Compose, Job, Outcome
from isentropic.runs.files import CONFIG
from isentropic.runs.renamed import modern
from isentropic.runs.status import Status, alive, read_status

SAMPLE = 40  # jobs whose whole config is composed and compared, a fifth of a second each
# Settings that change no result.
IGNORED = ("paths", "ckpt_path", "print_config", "tags", "logger", "callbacks.progress")


def pending_jobs(
    jobs: Sequence[Job], compose: Compose, queued: Collection[Job] = ()
) -> tuple[list[Job], list[Outcome]]:
    """Those to run, in order, and how it stands with the others. Whether the `queued` run is the launcher's to say."""
    found = {job.folder: read_status(job.folder) for job in jobs}
    there = [job for job in jobs if (job.folder / CONFIG).exists()]
    differing = changed_jobs(there, compose)
    todo: list[Job] = []
    others: list[Outcome] = []
    for job in jobs:
        status = found[job.folder]
        if status and job not in queued and alive(job.folder, status):
            others.append(Outcome(job, "unfinished", f"it runs already, as process {status.pid} on {status.host}"))
        elif job.folder in differing:
            others.append(Outcome(job, "failed", differing[job.folder]))
        elif status and status.status == "done":
            others.append(Outcome(job, "skipped", "done before", status.seconds, status.result))
        else:
            todo.append(job)
    return todo, others


def changed_jobs(jobs: Sequence[Job], compose: Compose) -> dict[Path, str]:
    """By folder, how its settings differ from now. Of many jobs a sample is compared, and all if one differs."""
    some = jobs if len(jobs) <= SAMPLE else list(representative_jobs(jobs))[:SAMPLE]
    changed = dict(changes(some, compose))
    if changed and len(some) < len(jobs):
        print(f"comparing the settings of {len(jobs)} jobs with those they were run with", flush=True)
        changed = dict(changes(jobs, compose))
    return changed


def representative_jobs(jobs: Iterable[Job]) -> Iterator[Job]:
    """Jobs that together have every override."""
    covered: set[str] = set()
    for job in jobs:
        if not covered.issuperset(job.overrides):
            covered.update(job.overrides)
            yield job


def changes(jobs: Iterable[Job], compose: Compose) -> Iterator[tuple[Path, str]]:
    for job in jobs:
        text = describe_change(job.folder, compose(job.overrides))
        if text:
            yield job.folder, text


def describe_change(folder: Path, now: DictConfig) -> str:
    """One sentence, or nothing where the settings are those that the folder's run had."""
    with read_write(now), open_dict(now):
        now.hydra.runtime.output_dir = str(folder)
    try:
        before = load((folder / CONFIG).read_text(encoding="utf-8"))
    except yaml.YAMLError:
        before = None
    if not before:
        return ""  # cut off as it was written, so that nothing was run yet
    ours, theirs = comparable(resolved(now)), comparable(before)
    different = [key for key in {**ours, **theirs} if ours.get(key, "absent") != theirs.get(key, "absent")]
    if not different:
        return ""
    changed = [f"{key} was {theirs.get(key, 'absent')} and is now {ours.get(key, 'absent')}" for key in different[:3]]
    more = f" (and {len(different) - 3} more)" if len(different) > 3 else ""
    return f"{', '.join(changed)}{more}; move {folder} away, or choose another hydra.sweep.dir"


def resolved(cfg: DictConfig) -> Any:
    """As config.yaml has it."""
    HydraConfig.instance().set_config(cfg)
    try:
        return load(OmegaConf.to_yaml(OmegaConf.masked_copy(cfg, [str(k) for k in cfg if k != "hydra"]), resolve=True))
    finally:
        HydraConfig.instance().cfg = None


def load(text: str) -> Any:
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def comparable(config: Any) -> dict[str, Any]:
    """Dotted keys and values that may change a result, paths of this machine left out."""
    flat = modern(dict(leaves(config)))
    places = [(str(flat.get(f"paths.{name}")), f"<{name}>") for name in ("output", "root")]
    kept: dict[str, Any] = {}
    for key, value in flat.items():
        if not any(key == one or key.startswith(f"{one}.") for one in IGNORED):
            text = value if isinstance(value, str) else None
            for place, word in places if text else ():
                text = (text or "").replace(place, word)
            kept[key] = value if text is None else text
    return kept


def move_aside(jobs: Sequence[Job], sweep: Path) -> list[Job]:
    """Those of an earlier sweep, into a folder beside it; those that still run stay. Nothing is deleted."""
    there = [job for job in jobs if job.folder.exists() and not is_running(job.folder)]
    if there:
        kept = next(p for p in (sweep.with_name(f"{sweep.name}.{i}") for i in count(1)) if not p.exists())
        kept.mkdir(parents=True)
        for job in there:
            (kept / job.name).parent.mkdir(parents=True, exist_ok=True)
            os.rename(job.folder, kept / job.name)
        print(f"{len(there)} earlier jobs of this sweep are kept in {kept}", flush=True)
    return there


def is_running(folder: Path) -> bool:
    status: Status | None = read_status(folder)
    return status is not None and alive(folder, status)
