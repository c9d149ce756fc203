"""Two ranks started by Lightning from one command; those of a sweep's jobs are in launching/test_sweep.py."""

import os
import signal
import time
from pathlib import Path

import pytest
from fixtures.processes import command_of

from isentropic.runs.lock import locked
from isentropic.runs.status import alive, read_status
from isentropic.sampler.vllm import keeper

CONFIGS = Path(__file__).parents[1] / "configs"
SCRIPT = """
from pathlib import Path
from isentropic.config.entry import main
from isentropic.config.build import build

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


@pytest.mark.slow
def test_fsdp_shards_over_all_ranks_of_one_run(forks, tmp_path: Path):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/train.yaml").write_text(TRAIN % CONFIGS)
    (tmp_path / "train.py").write_text(SCRIPT)
    arguments = ["trainer=fsdp", "trainer.accelerator=cpu", "trainer/cluster=lightning", "name=fsdp"]
    variables = {"PROJECT_ROOT": str(tmp_path), "PYTHONPATH": str(CONFIGS.parent / "src")}
    (result,) = forks(tmp_path / "train.py", (arguments, variables), where=tmp_path)
    assert result.returncode == 0, result.stderr
    lines = [said.read_text() for said in sorted(tmp_path.glob("*.txt"))]  # printed lines of two may interleave
    assert lines == [f"fsdp: rank {rank} of 2, DTensor" for rank in (0, 1)]
    (folder,) = (tmp_path / "logs/train/runs").iterdir()
    assert (folder / "config.yaml").exists()
    assert "trainer.strategy.data_parallel_size = 2" in (folder / "config_sources.txt").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_of_two_ranks_the_one_that_is_left_ends_and_frees_the_folder(start, tmp_path: Path, killed: int):
    """A rank that is killed is missed by the other in the next collective, and by whoever started it."""
    folder = tmp_path / "run"
    process = start("train", "trainer=ddp_cpu", "sampler=transformers", "rollout.steps=500", f"hydra.run.dir={folder}")
    for line in process.stdout:
        if line.startswith("step 1/"):
            break
    (other,) = (pid for pid in children(process.pid) if "isentropic.train" in command_of(pid))
    begun = keeper.begun(other)
    os.kill(process.pid if killed == 0 else other, signal.SIGKILL)
    _, said = process.communicate(timeout=300)
    limit = time.monotonic() + 300
    while keeper.begun(other) == begun:
        assert time.monotonic() < limit, "a rank outlives its run"
        time.sleep(0.1)
    with locked(folder):
        status = read_status(folder)
    assert status and not alive(folder, status)
    if killed == 1:
        assert process.returncode != 0 and said.strip(), said
        assert status.status == "failed", (status, said)
        assert "error: another rank has ended" in said and "Traceback" not in said, said


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in listed for child in file.read_text().split()]
