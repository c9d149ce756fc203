"""A batch of a sweep, from Hydra's overrides to how each job ended: plan, find what is done, run the rest."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig

from isentropic.config.entry import AT_END
from isentropic.launching import Launcher, Outcome
from isentropic.launching.jobs import compose, plan
from isentropic.launching.resume import move_aside, pending_jobs
from isentropic.launching.summary import OUTCOMES, conclude


def sweep(
    launcher: Launcher, config: DictConfig, loader: ConfigLoader, overrides: Sequence[Sequence[str]], first: int
) -> list[JobReturn]:
    """Hydra's launch(); a sweeper reads avg@k from what it returns. Raises BadInput."""
    if conclude not in AT_END:
        AT_END.append(conclude)
    jobs = plan(config, loader, overrides, first)
    folder = Path(config.hydra.sweep.dir).absolute()
    if launcher.again:
        move_aside(jobs, folder)
    make = partial(compose, config, loader)
    todo, outcomes = pending_jobs(jobs, make, launcher.queued(jobs))
    left = f", {len(jobs) - len(todo)} left as they are" if len(todo) < len(jobs) else ""
    print(f"{len(jobs)} jobs in {folder}{left}; each one's output is in its {jobs[0].log.name}", flush=True)
    try:
        for outcome in launcher.run(todo, make):
            outcomes.append(outcome)
    finally:
        by_folder = {outcome.job.folder: outcome for outcome in outcomes}
        ended = [by_folder.get(job.folder, Outcome(job, "unfinished", "not started")) for job in jobs]
        OUTCOMES.extend(ended)
    return [job_return(outcome) for outcome in ended]


def job_return(outcome: Outcome) -> JobReturn:
    result = JobReturn(overrides=outcome.job.overrides, working_dir=str(outcome.job.folder))
    good = outcome.ending in ("done", "skipped")
    result.status = JobStatus.COMPLETED if good else JobStatus.FAILED
    result.return_value = outcome.result if good else RuntimeError(f"{outcome.job.name}: {outcome.reason}")
    return result
