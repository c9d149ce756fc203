"""SLURM through submitit, which keeps what it runs as pickles in the sweep's folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isentropic.config.build import BadInput
from isentropic.launching import Job
from isentropic.launching.cluster import SRUN, Cluster, outside
from isentropic.launching.slurm_queue import HIDDEN, folder_of
from isentropic.launching.submitted import Rank

if TYPE_CHECKING:
    from submitit import SlurmExecutor

# options of sbatch that submitit has names for
KNOWN = {
    "job_name", "partition", "account", "qos", "constraint", "time", "nodes", "ntasks_per_node", "mem", "gpus_per_node",
    "cpus_per_task",
}  # fmt: skip


@dataclass(frozen=True)
class Slurm(Cluster):
    """Requeued by submitit, at the signal that SLURM sends `warning` seconds before the limit."""

    def submit(self, jobs: Sequence[Job], options: Mapping[str, Any]) -> dict[Job, str]:
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        executor = self.executor(jobs, options)
        try:
            with outside(), executor.batch():
                submitted = [executor.submit(Rank(job)) for job in jobs]
        except (FailedJobError, FailedSubmissionError, OSError) as error:
            raise BadInput(f"sbatch refused the jobs: {str(error).strip().splitlines()[-1]}") from error
        ids = {job: str(one.job_id) for job, one in zip(jobs, submitted, strict=True)}
        print(f"submitted {len(jobs)} jobs, the first as {ids[jobs[0]]}", flush=True)
        return ids

    def script(self, jobs: Sequence[Job], options: Mapping[str, Any]) -> str:
        executor = self.executor(jobs, options)
        executor.parameters["map_count"] = len(jobs)
        return executor._make_submission_file_text(executor._submitit_command_str, "")

    def executor(self, jobs: Sequence[Job], options: Mapping[str, Any]) -> "SlurmExecutor":
        """Raises BadInput without submitit, or without srun, which it looks for."""
        try:
            from submitit import SlurmExecutor

            folder = folder_of(jobs) / HIDDEN / "submitit"
            executor = SlurmExecutor(folder=folder, max_num_timeout=self.requeues)
        except ImportError as error:
            raise BadInput(
                "hydra/launcher=slurm needs the package submitit (pip install -e .[slurm]); hydra/launcher=slurm_array "
                "does without"
            ) from error
        except RuntimeError as error:
            raise BadInput(f"submitit: {error}") from error
        executor.update_parameters(
            **{name: value for name, value in options.items() if name in KNOWN},
            additional_parameters={n: v for n, v in options.items() if n not in KNOWN} | {"requeue": True},
            array_parallelism=self.parallel or len(jobs),
            signal_delay_s=self.warning,
            setup=self.prologue(),
            srun_args=list(SRUN),
            stderr_to_stdout=True,
        )
        return executor
