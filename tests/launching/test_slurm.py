import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from isentropic.config.build import BadInput
from isentropic.launching import Job
from isentropic.launching.devices import Resources
from isentropic.launching.slurm import SAVED_CODES, Slurm, option_line, resources_of_jobs, without_allocation

SETTINGS = yaml.safe_load((Path(__file__).parents[2] / "src/isentropic/configs/hydra/launcher/slurm.yaml").read_text())
SLURM = Slurm(**{key: value for key, value in SETTINGS.items() if key != "_target_"})
FOUR = Resources(processes=4, nodes=2, gpu=True)


def job(folder: Path, *overrides: str, command: tuple[str, ...] = ("true",)) -> Job:
    name = ",".join(overrides) or "job"
    return Job(name, folder / name, overrides, command, folder / name / "train.log")


def test_nodes_tasks_and_gpus_are_the_trainers():
    options = replace(SLURM, partition="gpu", cpus_per_task=8, mem_gb=64).options(FOUR, "mine")
    assert options == {
        "job_name": "mine", "partition": "gpu", "time": 240, "nodes": 2, "ntasks_per_node": 4, "gpus_per_node": 4,
        "cpus_per_task": 8, "mem": "64G",
    }  # fmt: skip
    assert "gpus_per_node" not in SLURM.options(replace(FOUR, gpu=False), "mine")


def test_gpus_may_be_asked_for_in_the_clusters_own_words():
    options = replace(SLURM, gpus_per_node=0, extra=["--gres=gpu:a100:4", "--exclusive"]).options(FOUR, "mine")
    assert options["gres"] == "gpu:a100:4" and options["exclusive"] is True and "gpus_per_node" not in options


def test_a_trainer_that_takes_what_there_is_must_be_told_how_much():
    whole = Resources(processes=None, nodes=1, gpu=True)
    with pytest.raises(BadInput, match=r"trainer.devices .* give its number"):
        SLURM.options(whole, "mine")
    assert replace(SLURM, gpus_per_node=8).options(whole, "mine")["ntasks_per_node"] == 8


@pytest.mark.parametrize(
    "settings, text",
    [
        ({"time": 0}, "time=0 must be above 0"),
        ({"cpus_per_task": -1}, "cpus_per_task=-1 must be above 0"),
        ({"requeues": -1}, "requeues=-1 must be at least 0"),
        ({"time": 5, "warning": 300}, "warning=300 seconds before the limit leave nothing of time=5 minutes"),
        ({"srun": ["container-image=x"]}, "srun=container-image=x is no option of srun"),
        ({"extra": ["exclusive"]}, "extra=exclusive is no option of sbatch"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        replace(SLURM, **settings)


def test_one_job_is_composed_of_those_that_cannot_differ_in_what_they_ask_for(tmp_path):
    composed = []

    def compose(overrides):
        composed.append(tuple(overrides))
        return OmegaConf.create({"trainer": {"devices": 2 if "trainer=fsdp" in overrides else 1, "accelerator": "gpu"}})

    jobs = [job(tmp_path, f"seed={i}", f"trainer={t}") for t in ("gpu", "fsdp") for i in range(50)]
    found = dict(resources_of_jobs(jobs, compose))
    assert len(composed) == 2
    assert [found[one].processes for one in (jobs[0], jobs[-1])] == [1, 2]


def test_an_allocation_around_the_launcher_is_not_the_jobs(monkeypatch):
    for name, value in {"SLURM_CONF": "here", "SLURM_NTASKS": "8", "SBATCH_ACCOUNT": "mine"}.items():
        monkeypatch.setenv(name, value)
    with without_allocation():
        assert "SLURM_NTASKS" not in os.environ
        assert (os.environ["SLURM_CONF"], os.environ["SBATCH_ACCOUNT"]) == ("here", "mine")
    assert os.environ["SLURM_NTASKS"] == "8"


def test_the_codes_of_a_warned_run_are_those_of_the_two_signals():
    assert SAVED_CODES == (138, 140)


# In place of srun and scontrol: each says what it was called with; srun ends as the job wants.
BIN = {
    "srun": 'echo "srun $*"; [[ "$*" =~ code=([0-9]+) ]]; exit "${BASH_REMATCH[1]}"',
    "scontrol": 'echo "scontrol $*"',
}


def run(tmp_path: Path, launcher: Slurm, *commands: tuple[str, ...], task: int, restarts: int = 0):
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
    script, result, log = run(tmp_path, SLURM, *commands, task=1)
    assert result.returncode == 3 and log == "srun --kill-on-bad-exit=0 --wait=300 python seed=1 text=a b code=3\n"
    assert script.startswith("#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --array=0-1\n")
    assert "#SBATCH --signal=USR1@300\n#SBATCH --requeue\n" in script


def test_a_run_that_was_warned_of_the_limit_is_requeued_so_many_times(tmp_path):
    _, result, _ = run(tmp_path, SLURM, ("train", "code=138"), task=0)
    assert (result.returncode, result.stdout) == (0, "scontrol requeue 12_0\n")
    _, result, _ = run(tmp_path, replace(SLURM, requeues=3), ("train", "code=138"), task=0, restarts=3)
    assert (result.returncode, result.stdout) == (138, "")


def test_lines_before_the_job_are_the_users_and_srun_hears_of_cpus(tmp_path):
    script, _, _ = run(tmp_path, replace(SLURM, cpus_per_task=8, setup=["umask 027"]), ("train", "code=0"), task=0)
    assert "export SRUN_CPUS_PER_TASK=8 OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}\numask 027\ncase" in script


def test_a_job_that_begins_elsewhere_goes_on_from_its_own_checkpoint(tmp_path):
    command = ("train", "ckpt_path=base.ckpt", "code=0")
    *_, log = run(tmp_path, SLURM, command, task=0)
    assert log.endswith("train ckpt_path=base.ckpt code=0\n")
    checkpoints = tmp_path / "a sweep/seed=0/checkpoints"
    checkpoints.mkdir()
    (checkpoints / "last.ckpt").touch()
    _, _, log = run(tmp_path, replace(SLURM, parallel=4), command, task=0)
    assert log.endswith("train ckpt_path=base.ckpt code=0 ckpt_path=last\n")


def test_options_are_as_sbatch_wants_them():
    assert option_line("gpus_per_node", 4) == "#SBATCH --gpus-per-node=4"
    assert option_line("exclusive", True) == "#SBATCH --exclusive"
    assert option_line("comment", "two words") == "#SBATCH --comment='two words'"


def test_a_container_stands_before_the_command_or_in_the_options_of_srun(tmp_path):
    launcher = replace(
        SLURM, srun=["--container-image=a b"], prefix=["apptainer", "exec", "my image.sif"], python="python3"
    )
    script, _, log = run(tmp_path, launcher, ("/here/python", "-m", "train", "code=0"), task=0)
    assert "'--container-image=a b' apptainer exec 'my image.sif' \"$@\"" in script
    assert log.endswith("--container-image=a b apptainer exec my image.sif python3 -m train code=0\n")


@pytest.mark.parametrize("squeue", [None, "#!/bin/sh\nexit 1\n"], ids=["without SLURM", "no controller"])
def test_a_script_is_shown_on_a_machine_without_slurm(tmp_path, monkeypatch, capsys, squeue):
    programs = tmp_path.parent / f"{tmp_path.name}-programs"
    programs.mkdir()
    if squeue:
        (programs / "squeue").write_text(squeue)
        (programs / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    cfg = OmegaConf.create({"trainer": {"devices": 1, "accelerator": "cpu"}})
    (outcome,) = replace(SLURM, dry=True).run([job(tmp_path, "seed=0")], lambda _: cfg)
    assert outcome.reason == "not submitted, as dry=true" and not list(tmp_path.iterdir())
    assert capsys.readouterr().out.startswith("#!/bin/bash\n#SBATCH --job-name=")


def test_a_run_by_itself_is_submitted_as_one_job_and_never_trains_where_it_was_called(project, shell):
    launcher = ["hydra/launcher=slurm", "hydra.launcher.dry=true"]
    process = shell("seed=1", *launcher, PATH="")
    out, _ = process.communicate()
    assert process.returncode == 0 and "#SBATCH --array=0-0\n" in out and "1 unfinished" in out
    assert not [*project.rglob("status.json")]
    process = shell("seed=1", *launcher, "hydra.run.dir=here", PATH="")
    out, _ = process.communicate()
    assert process.returncode == 2 and "error: hydra.run.dir=here is the folder of a run on this machine" in out
