import subprocess
from dataclasses import replace
from pathlib import Path

import yaml

from isentropic.launching import Job
from isentropic.launching.slurm_array import SlurmArray, option

SETTINGS = yaml.safe_load((Path(__file__).parents[2] / "configs/hydra/launcher/slurm.yaml").read_text())
ARRAY = SlurmArray(**{key: value for key, value in SETTINGS.items() if key != "_target_"})
# In place of srun and scontrol: each says what it was called with; srun ends as the job wants.
BIN = {
    "srun": 'echo "srun $*"; [[ "$*" =~ code=([0-9]+) ]]; exit "${BASH_REMATCH[1]}"',
    "scontrol": 'echo "scontrol $*"',
}


def run(tmp_path: Path, launcher: SlurmArray, *commands: tuple[str, ...], task: int, restarts: int = 0):
    folder = tmp_path / "a sweep"
    jobs = [
        Job(f"seed={i}", folder / f"seed={i}", (), command, folder / f"seed={i}" / "train.log")
        for i, command in enumerate(commands)
    ]
    script = launcher.script(jobs, {"nodes": 2, "ntasks_per_node": 4})
    (tmp_path / "bin").mkdir(exist_ok=True)
    for name, text in BIN.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    variables = {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_JOB_ID": "12",
        "SLURM_RESTART_COUNT": str(restarts),
    }  # fmt: skip
    result = subprocess.run(["bash", "-c", script], env=variables, capture_output=True, text=True)
    assert result.stderr == ""
    return script, result, jobs[task].log.read_text()


def test_each_task_of_the_array_runs_its_own_command_and_writes_into_its_own_folder(tmp_path):
    commands = ("python", "seed=0", "text='it''s'", "code=0"), ("python", "seed=1", "text=a b", "code=3")
    script, result, log = run(tmp_path, ARRAY, *commands, task=1)
    assert result.returncode == 3 and log == "srun --kill-on-bad-exit=0 --wait=300 python seed=1 text=a b code=3\n"
    assert script.startswith("#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --array=0-1\n")
    assert "#SBATCH --signal=USR1@300\n#SBATCH --requeue\n" in script


def test_a_run_that_was_warned_of_the_limit_is_requeued_so_many_times(tmp_path):
    _, result, _ = run(tmp_path, ARRAY, ("train", "code=138"), task=0)
    assert (result.returncode, result.stdout) == (0, "scontrol requeue 12_0\n")
    _, result, _ = run(tmp_path, replace(ARRAY, requeues=3), ("train", "code=138"), task=0, restarts=3)
    assert (result.returncode, result.stdout) == (138, "")


def test_lines_before_the_job_are_the_users_and_srun_hears_of_cpus(tmp_path):
    script, _, _ = run(tmp_path, replace(ARRAY, cpus_per_task=8, setup=["umask 027"]), ("train", "code=0"), task=0)
    assert "export SRUN_CPUS_PER_TASK=8 OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}\numask 027\ncase" in script


def test_a_job_that_begins_elsewhere_goes_on_from_its_own_checkpoint(tmp_path):
    command = ("train", "ckpt_path=base.ckpt", "code=0")
    *_, log = run(tmp_path, ARRAY, command, task=0)
    assert log.endswith("train ckpt_path=base.ckpt code=0\n")
    checkpoints = tmp_path / "a sweep/seed=0/checkpoints"
    checkpoints.mkdir()
    (checkpoints / "last.ckpt").touch()
    _, _, log = run(tmp_path, replace(ARRAY, parallel=4), command, task=0)
    assert log.endswith("train ckpt_path=base.ckpt code=0 ckpt_path=last\n")


def test_options_are_as_sbatch_wants_them():
    assert option("gpus_per_node", 4) == "#SBATCH --gpus-per-node=4"
    assert option("exclusive", True) == "#SBATCH --exclusive"
    assert option("comment", "two words") == "#SBATCH --comment='two words'"
