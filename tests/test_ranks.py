"""Several ranks started by Lightning from one command, alone and in a sweep, with the trainers of configs/."""

import os
import subprocess
import sys
from pathlib import Path

CONFIGS = Path(__file__).parents[1] / "configs"
SCRIPT = """
from pathlib import Path
from isentropic.entry import main
from isentropic.build import build

@main("train", Path(__file__).parent / "configs")
def train(cfg):
    from lightning.pytorch.demos.boring_classes import BoringModel

    class Model(BoringModel):
        def configure_model(self):
            if "fsdp" in cfg.name:
                from torch.distributed.fsdp import fully_shard
                fully_shard(self.layer, mesh=self.device_mesh["data_parallel"])

        def on_train_start(self):
            line = f"rank {self.global_rank} of {self.trainer.world_size}, {type(self.layer.weight).__name__}"
            (Path(__file__).parent / f"{cfg.name}{self.global_rank}.txt").write_text(f"{cfg.name}: {line}")

    trainer = build(cfg, "trainer", logger=False)
    trainer.fit(Model())
    trainer.strategy.barrier()

if __name__ == "__main__":
    train()
"""
TRAIN = """
defaults: [_self_, trainer: ddp_cpu, paths: default, hydra: default]
name: none
hydra: {searchpath: ["file://%s"]}
trainer: {limit_train_batches: 1, limit_val_batches: 0, enable_checkpointing: false}
"""


def run(project: Path, *arguments: str) -> list[str]:
    (project / "configs").mkdir()
    (project / "configs/train.yaml").write_text(TRAIN % CONFIGS)
    (project / "train.py").write_text(SCRIPT)
    launcher = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "SLURM_PROCID"}
    environment = {k: v for k, v in os.environ.items() if k not in launcher}
    environment |= {"PYTHONPATH": str(CONFIGS.parent / "src"), "PROJECT_ROOT": str(project), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "train.py", *arguments]
    result = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return [said.read_text() for said in sorted(project.glob("*.txt"))]  # printed lines of two ranks may interleave


def test_each_job_of_a_sweep_has_its_own_ranks_and_one_folder(tmp_path: Path):
    lines = run(tmp_path, "-m", "name=a,b")
    assert lines == [f"{name}: rank {rank} of 2, Parameter" for name in "ab" for rank in (0, 1)]
    (sweep,) = (tmp_path / "logs/train/multiruns").iterdir()
    assert {p.name for p in sweep.iterdir()} == {"name=a", "name=b", "multirun.yaml"}
    assert all((sweep / f"name={name}" / "config.yaml").exists() for name in "ab")
    assert not (tmp_path / "logs/train/runs").exists()


def test_fsdp_shards_over_all_ranks_of_one_run(tmp_path: Path):
    lines = run(tmp_path, "trainer=fsdp", "trainer.accelerator=cpu", "trainer/cluster=lightning", "name=fsdp")
    assert lines == [f"fsdp: rank {rank} of 2, DTensor" for rank in (0, 1)]
    (folder,) = (tmp_path / "logs/train/runs").iterdir()
    assert (folder / "config.yaml").exists()
    assert "trainer.strategy.data_parallel_size = 2" in (folder / "config_sources.txt").read_text()
