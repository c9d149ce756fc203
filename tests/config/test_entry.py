"""A small project of its own, run as users run ours: in a process, from the command line."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

SCRIPT = """
import sys
from pathlib import Path
from isentropic.config.entry import main
from isentropic.config.build import build

@main("train", Path(__file__).parent / "configs")
def train(cfg):
    assert not {"torch", "lightning"} & set(sys.modules), "slow imports before the first line"
    part = build(cfg, "policy")
    print("built", part, type(part.sizes).__name__)

if __name__ == "__main__":
    train()
"""
PARTS = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Policy:
    lr: float
    sizes: list[int]

    def __post_init__(self):
        if self.lr < 0:
            raise ValueError(f"lr={self.lr} must not be negative")
"""
FILES = {
    "train.py": SCRIPT,
    "parts.py": PARTS,
    "configs/train.yaml": """
        defaults: [_self_, task: sums, policy: small, hydra: default, experiment: null]
        seed: 0
        base: 0.5
        print_config: false
    """,
    "configs/task/sums.yaml": "{limit: 9, seed: '${seed}'}",
    "configs/task/words.yaml": "{limit: 3, seed: 1}",
    "configs/policy/small.yaml": "{_target_: parts.Policy, lr: '${base}', sizes: [1, 2]}",
    "configs/hydra/default.yaml": "run: {dir: 'runs/one'}\nsweep: {dir: 'sweeps/one', subdir: '${hydra.job.num}'}",
    "configs/experiment/words.yaml": """
        # @package _global_
        defaults: [override /task: words]
        task: {limit: 4}
    """,
    "configs/experiment/stale.yaml": "# @package _global_\nsede: 3",
    "configs/experiment/stale_part.yaml": "# @package _global_\npolicy: {learning_rate: 3}",
    "configs/experiment/lost.yaml": "# @package _global_\ndefaults: [override /task: wrods]",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).strip())
    return tmp_path


def run(project: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(__file__).parents[2] / "src")
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "LOCAL_RANK", "SLURM_PROCID", "HYDRA_FULL_ERROR")}
    environment = clean | {"PYTHONPATH": f"{source}{os.pathsep}{project}"} | variables
    command = [sys.executable, "train.py", *arguments]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    "arguments",
    [["task=wrods"], ["policy.rl=1"], ["policy.lr=abc"], ["policy.lr=-1"], ["-m", "seed=1,2", "policy.lr=-1,1"]],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(project: Path, arguments: list[str]):
    before = {p for p in project.rglob("*") if "__pycache__" not in p.parts}
    result = run(project, *arguments)
    assert result.returncode == 2
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1, result.stderr
    assert {p for p in project.rglob("*") if "__pycache__" not in p.parts} == before


def test_what_a_compiler_says_of_a_library_is_not_said_and_of_ones_own_code_with_its_place(project: Path):
    loud = "import sys\nx = sys.argv\nx is 'a'\n"
    (project / "site-packages").mkdir()
    (project / "site-packages" / "library.py").write_text(loud)
    (project / "own.py").write_text(loud)
    script = SCRIPT.replace("    part = build", "    import own\n    import library\n    part = build")
    (project / "train.py").write_text(script.replace("import sys", "import sys\nsys.path.append('site-packages')", 1))
    result = run(project)
    assert result.returncode == 0, result.stderr
    assert f"warning: {project / 'own.py'}, line 3: " in result.stderr
    assert "library" not in result.stderr and result.stderr.count("warning:") == 1, result.stderr


def test_a_traceback_is_there_for_who_asks(project: Path):
    result = run(project, "policy.lr=abc", HYDRA_FULL_ERROR="1")
    assert result.returncode == 1
    assert "Traceback" in result.stderr and "policy.lr=abc is not a float" in result.stderr


def test_a_run_saves_its_resolved_config_and_where_each_value_came_from(project: Path):
    result = run(project, "experiment=words", "policy.sizes=[3]", "print_config=true")
    assert result.returncode == 0, result.stderr
    assert "built Policy(lr=0.5, sizes=[3]) list" in result.stdout
    assert yaml.safe_load((project / "runs/one/config.yaml").read_text()) == {
        "seed": 0,
        "base": 0.5,
        "print_config": True,
        "task": {"limit": 4, "seed": 1},
        "policy": {"_target_": "parts.Policy", "lr": 0.5, "sizes": [3]},
    }
    text = (project / "runs/one/config_sources.txt").read_text()
    assert {tuple(" ".join(line.split()).split(" # ")) for line in text.splitlines()} == {
        ("seed = 0", "train.yaml"),
        ("base = 0.5", "train.yaml"),
        ("print_config = True", "command line"),
        ("task.limit = 4", "experiment/words.yaml"),
        ("task.seed = 1", "task/words.yaml"),
        ("policy._target_ = parts.Policy", "policy/small.yaml"),
        ("policy.lr = 0.5", "policy/small.yaml: ${base}"),
        ("policy.sizes = [3]", "command line"),
    }
    assert text in result.stdout


def test_a_sweep_runs_each_job_in_its_folder(project: Path):
    result = run(project, "-m", "seed=1,2", "task=words")
    assert result.returncode == 0, result.stderr
    for number, seed in enumerate((1, 2)):
        assert yaml.safe_load((project / f"sweeps/one/{number}/config.yaml").read_text())["seed"] == seed


def test_hydra_answers_questions_about_the_config(project: Path):
    shown = run(project, "--cfg", "job", "seed=7")
    assert shown.returncode == 0 and yaml.safe_load(shown.stdout)["seed"] == 7
    assert run(project, "--help").returncode == 0
    assert not (project / "runs").exists()


def test_ranks_other_than_the_first_write_no_config(project: Path):
    result = run(project, LOCAL_RANK="1")
    assert result.returncode == 0, result.stderr
    assert not (project / "runs/one/config.yaml").exists()


FAILING = """
import atexit, os, signal
from pathlib import Path
from isentropic.config.entry import main

@main("train", Path(__file__).parent / "configs")
def train(cfg):
    import torch.distributed as dist

    ranks = int(os.environ["WORLD_SIZE"])
    meeting = f"file://{Path(__file__).parent}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=int(os.environ["RANK"]), world_size=ranks)
    atexit.register(lambda: print("seconds left", signal.getitimer(signal.ITIMER_REAL)[0]))
    raise RuntimeError("lost")

if __name__ == "__main__":
    train()
"""


@pytest.mark.slow
@pytest.mark.parametrize("ranks, arguments", [(2, []), (1, []), (2, ["-m", "seed=1"])])
def test_ranks_that_fail_together_have_five_minutes_to_end(project: Path, ranks: int, arguments: list[str]):
    (project / "train.py").write_text(FAILING.strip())
    with ThreadPoolExecutor(ranks) as threads:
        each = [{"RANK": str(rank), "WORLD_SIZE": str(ranks)} for rank in range(ranks)]
        found = list(threads.map(lambda variables: run(project, *arguments, **variables), each))
    for one in found:
        assert one.returncode == 1 and "lost" in one.stderr
        left = float(one.stdout.split("seconds left")[1].split()[0])
        assert (270 < left <= 300) if ranks > 1 and not arguments else left == 0


def test_the_environment_file_gives_what_the_shell_does_not(project: Path, monkeypatch: pytest.MonkeyPatch):
    from isentropic.config import entry

    (project / ".env").write_text("# comment\nexport ISENTROPIC_A='one'\nISENTROPIC_B=two\n")
    monkeypatch.setattr(entry, "ROOT", project)
    monkeypatch.setenv("ISENTROPIC_B", "three")
    monkeypatch.setenv("ISENTROPIC_A", "gone with the test")
    monkeypatch.delenv("ISENTROPIC_A")
    entry.read_environment()
    assert (os.environ["ISENTROPIC_A"], os.environ["ISENTROPIC_B"]) == ("one", "three")


def test_ctrl_c_is_no_traceback_and_takes_back_a_folder_without_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    from isentropic.config.entry import one_sentence

    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    (folder / "config.yaml").touch()
    with pytest.raises(SystemExit) as caught, one_sentence(folder):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            sys.exit(1)  # as libraries do
    assert caught.value.code == 130 and not folder.exists()
    assert capsys.readouterr().err == "stopped\n"
    with pytest.raises(SystemExit) as caught, one_sentence():
        sys.exit(3)
    assert caught.value.code == 3


@pytest.mark.parametrize("gone, said", [
    (False, "metrics.csv: No space left on device; free some space, or choose another hydra.run.dir"),
    (True, "is gone, and with it what this run has saved"),
])  # fmt: skip
def test_what_a_disk_says_is_a_sentence_with_the_place(tmp_path: Path, gone: bool, said: str):
    from isentropic.config.entry import of_disk

    (folder := tmp_path / "run").mkdir()
    if gone:
        folder.rmdir()
    full = OSError(28, "No space left on device", str(folder / "metrics.csv"))
    assert of_disk(full, folder).endswith(said) and of_disk(full, folder).startswith(str(folder))
    nameless = of_disk(OSError(28, "No space left on device"), tmp_path)
    assert nameless.startswith(f"{tmp_path}: No space left on device; free some space")
    assert of_disk(OSError(111, "Connection refused"), tmp_path) == "[Errno 111] Connection refused"


def test_a_run_whose_folder_is_gone_ends_as_one_that_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from isentropic.config.build import BadInput
    from isentropic.config.entry import one_sentence

    with pytest.raises(SystemExit) as caught, one_sentence(tmp_path / "run"):
        raise BadInput("it is gone")
    assert caught.value.code == 1 and capsys.readouterr().err == "error: it is gone\n"
