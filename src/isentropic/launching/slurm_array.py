"""SLURM through one batch script of plain shell, where submitit is unwelcome."""

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from isentropic.config.build import BadInput
from isentropic.launching import Job
from isentropic.launching.cluster import CHECKPOINT, LAST, SRUN, WARNED, Cluster, outside
from isentropic.launching.slurm_queue import HIDDEN, folder_of

SCRIPT = """\
#!/bin/bash
{options}

{prologue}
case "$SLURM_ARRAY_TASK_ID" in
{cases}
esac
mkdir -p "$folder"
srun {srun} "$@" >> "$log" 2>&1
code=$?
# A run that is warned of the time limit saves and leaves with the number of the signal above 128.
if [[ " {warned} " == *" $code "* && "${{SLURM_RESTART_COUNT:-0}}" -lt {requeues} ]]; then
    exec scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
fi
exit $code
"""


@dataclass(frozen=True)
class SlurmArray(Cluster):
    """Requeued by the script itself, after the run has saved at SLURM's signal."""

    def submit(self, jobs: Sequence[Job], options: Mapping[str, Any]) -> dict[Job, str]:
        folder = folder_of(jobs) / HIDDEN
        folder.mkdir(parents=True, exist_ok=True)
        file = next(path for path in (folder / f"array{i}.sh" for i in count()) if not path.exists())
        file.write_text(self.script(jobs, options), encoding="utf-8")
        command = ["sbatch", "--parsable", str(file)]
        try:
            with outside():
                result = subprocess.run(command, capture_output=True, text=True, timeout=120)
        except (OSError, subprocess.SubprocessError) as error:
            raise BadInput(f"sbatch cannot be run: {error}") from error
        if result.returncode:
            raise BadInput(f"sbatch refused {file}: {result.stderr.strip().splitlines()[-1]}")
        number = result.stdout.strip().partition(";")[0]
        print(f"submitted {len(jobs)} jobs as array {number}, by {file}", flush=True)
        return {job: f"{number}_{i}" for i, job in enumerate(jobs)}

    def script(self, jobs: Sequence[Job], options: Mapping[str, Any]) -> str:
        """Each job's output goes where the job says, that of the script itself beside it."""
        folder = folder_of(jobs) / HIDDEN
        together = f"%{self.parallel}" if self.parallel else ""
        asked = dict(options) | {
            "array": f"0-{len(jobs) - 1}{together}",
            "signal": f"USR1@{self.warning}",
            "requeue": True,
            "open-mode": "append",
            "output": f"{folder}/%A_%a.out",
        }
        return SCRIPT.format(
            options="\n".join(option(name, value) for name, value in asked.items()),
            prologue="\n".join(self.prologue()),
            cases="\n".join(case(number, job) for number, job in enumerate(jobs)),
            srun=" ".join(SRUN),
            warned=" ".join(map(str, WARNED)),
            requeues=self.requeues,
        )


def option(name: str, value: Any) -> str:
    flag = f"#SBATCH --{name.replace('_', '-')}"
    return flag if value is True else f"{flag}={shlex.quote(str(value))}"


def case(number: int, job: Job) -> str:
    places = f"folder={shlex.quote(str(job.folder))} log={shlex.quote(str(job.log))}"
    words = [places, f"set -- {shlex.join(job.command)}"]
    if any(part.startswith("ckpt_path=") and part != LAST for part in job.command):
        words.append(f'[ ! -e "$folder/{CHECKPOINT}" ] || set -- "$@" {LAST}')
    return f"{number})\n    " + "\n    ".join([*words, ";;"])
