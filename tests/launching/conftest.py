"""A small project of its own, whose jobs do in no time what they are told to."""

import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
from hydra.conf import HydraConf
from hydra.core.utils import setup_globals
from omegaconf import OmegaConf

from isentropic.launching import Job

ROOT = Path(__file__).parents[2]
SCRIPT = """
import os, signal, sys
from pathlib import Path
from isentropic.config.entry import main

@main("train", Path(__file__).parent / "configs")
def train(cfg):
    print("threads", os.environ.get("OMP_NUM_THREADS"), "devices", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
    if cfg.does == "fails" and not Path("mended").exists():
        raise RuntimeError(f"no luck with {cfg.seed}\\nand a second line")
    if cfg.does == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if cfg.does == "waits" and not Path("mended").exists():
        print("waiting", flush=True)
        signal.pause()
    return cfg.seed / 2

if __name__ == "__main__":
    train()
"""
CONFIG = "{defaults: [_self_, hydra: default], seed: 0, does: nothing, size: 1, ckpt_path: null}"
HYDRA = """
defaults: [override launcher: local, override sweeper: grid, _self_]
run: {dir: runs/one}
sweep: {dir: 'sweeps/${sweep_name:}', subdir: '${job_name:${hydra.overrides.task}}'}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    configs = tmp_path / "configs" / "hydra"
    for group, option in (("launcher", "local"), ("launcher", "slurm"), ("sweeper", "grid")):
        (configs / group).mkdir(parents=True, exist_ok=True)
        (configs / group / f"{option}.yaml").write_text((ROOT / f"configs/hydra/{group}/{option}.yaml").read_text())
    (configs / "default.yaml").write_text(HYDRA)
    (configs.parent / "train.yaml").write_text(CONFIG)
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


@pytest.fixture
def shell(project: Path):
    """`python train.py`, as from a shell."""

    def process(*arguments: str, **variables: str) -> subprocess.Popen[str]:
        foreign = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "HYDRA_FULL_ERROR", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
        clean = {key: value for key, value in os.environ.items() if key not in foreign}
        return subprocess.Popen(
            [sys.executable, "train.py", *arguments], cwd=project, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env=clean | {"PYTHONPATH": str(ROOT / "src")} | variables,
        )  # fmt: skip

    return process


@pytest.fixture
def sweep(shell):
    """Exit code and output of a sweep."""

    def run(*arguments: str, **variables: str) -> tuple[int, str]:
        process = shell("-m", *arguments, **variables)
        out, _ = process.communicate(timeout=300)
        return process.returncode, out

    return run


@pytest.fixture
def job(tmp_path: Path):
    def make(*overrides: str) -> Job:
        folder = tmp_path / "sweep" / ",".join(overrides)
        return Job(folder.name, folder, overrides, (sys.executable, "-c", ""), folder / "train.log")

    return make


@pytest.fixture
def compose(tmp_path: Path):
    """Configs of such jobs, as far as a sweep looks at them."""

    setup_globals()  # Hydra's resolvers
    hydra = OmegaConf.structured(HydraConf)

    def make(overrides):
        base = {"seed": 0, "lr": 0.1, "tags": [], "folder": "${hydra:runtime.output_dir}/model"}
        config = OmegaConf.merge(base, OmegaConf.from_dotlist(list(overrides)))
        config.hydra = deepcopy(hydra)
        return config

    return make
