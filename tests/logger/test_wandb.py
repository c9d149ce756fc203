import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from isentropic.logger.sweep import of_sweep
from isentropic.logger.wandb import Wandb

wandb = pytest.importorskip("wandb", reason="wandb is not installed: pip install -e .[dev]")
wandb_pb2 = pytest.importorskip("wandb.proto.wandb_internal_pb2")
BLOCK = 32 * 1024


def records(folder: Path) -> Iterator:
    """What wandb would upload: the frames of its file, a log of LevelDB's format, oldest file first."""
    for file in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        data, place, frame = file.read_bytes(), 7, b""  # after its header
        while place + 7 <= len(data):
            if BLOCK - place % BLOCK < 7:
                place += BLOCK - place % BLOCK
                continue
            _, length, kind = struct.unpack("<IHB", data[place : place + 7])
            frame += data[place + 7 : place + 7 + length]
            place += 7 + length
            if kind in (1, 4):  # whole, or the last part
                record, frame = wandb_pb2.Record(), b""
                record.ParseFromString(data[place - length : place] if kind == 1 else frame)
                yield record


def job(sweep: Path, name: str, *overrides: str, shared: tuple[str, ...] = ()) -> Path:
    """A job's folder, as Hydra leaves it before the job starts."""
    folder = sweep / name
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "overrides.yaml").write_text(yaml.safe_dump([*shared, *overrides]))
    return folder


def sweep_of(folder: Path, *overrides: str) -> Path:
    folder.mkdir()
    (folder / "multirun.yaml").write_text(yaml.safe_dump({"hydra": {"overrides": {"task": list(overrides)}}}))
    return folder


def logger(folder: Path, **settings) -> Wandb:
    nothing = {"name": None, "group": None, "job_type": None, "id": None, "tags": ["tried"], "resume": "allow"}
    fixed = {"project": "isentropic", "offline": True, "log_model": False, "alias": "verl"}
    task = "isentropic.task.countdown.Countdown"
    return Wandb(save_dir=str(folder), task=task, **(nothing | fixed | settings))


def test_jobs_of_a_sweep_are_grouped_by_it_and_typed_by_what_varies_but_the_seed(tmp_path):
    shared = ("experiment=quickstart",)
    sweep = sweep_of(tmp_path / "grid", *shared, "algorithm=grpo,stare", "policy.optimization.lr=1e-4,1e-5", "seed=0,1")
    one = job(sweep, "a", "algorithm=stare", "policy.optimization.lr=1e-5", "seed=1", "ckpt_path=last", shared=shared)
    assert of_sweep(one) == ("grid", "stare,policy.optimization.lr=1e-5")
    seeds = sweep_of(tmp_path / "seeds", "algorithm=grpo", "seed=range(3)")
    assert of_sweep(job(seeds, "b", "seed=2", shared=("algorithm=grpo",))) == ("seeds", None)
    assert of_sweep(job(tmp_path / "single", "c", "algorithm=grpo")) == (None, None)


@pytest.mark.slow
def test_a_job_that_goes_on_in_its_folder_goes_on_in_its_wandb_run(tmp_path):
    sweep = sweep_of(tmp_path / "grid", "algorithm=grpo,stare")
    folder = job(sweep, "algorithm=stare", "algorithm=stare")
    for step, status in ((1, "failed"), (2, "success")):
        part = logger(folder, settings=wandb.Settings(silent=True))
        assert step == 2 or not (folder / "wandb").exists(), "a folder in which nothing has run yet"
        part.log_metrics({"entropy/mean": 0.5, "control/up": float(step)}, step)
        part.finalize(status)
        part.experiment.finish()
        wandb.teardown()  # only then is all on the disk
        (newest,) = folder.glob("wandb/offline-run-2*")  # named by the second, and parts of a test are quick
        newest.rename(newest.with_name(f"offline-run-{step}"))
    found = list(records(folder))
    runs = [record.run for record in found if record.HasField("run")]
    assert {(run.run_id, run.run_group, run.job_type, run.display_name, run.project) for run in runs} == {
        ((folder / "wandb" / "id.txt").read_text().strip(), "grid", "stare", "algorithm=stare", "isentropic")
    }
    assert all(list(run.tags) == ["tried"] for run in runs)
    rows = [
        {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        for record in found
        if record.HasField("history")
    ]
    assert [(row["trainer/global_step"], row["actor/entropy"], row["control/up"]) for row in rows] == [
        (1, 0.5, 1.0), (2, 0.5, 2.0)
    ]  # fmt: skip
    assert [record.exit.exit_code for record in found if record.HasField("exit")] == [1, 0]


def test_what_is_set_goes_before_what_is_found(tmp_path):
    part = logger(tmp_path, name="mine", group="ours", job_type="kind", id="abc", notes="by hand")
    assert part.version == "abc" and part._wandb_init["name"] == "mine"
    assert {key: part._wandb_init[key] for key in ("group", "job_type", "notes")} == {
        "group": "ours", "job_type": "kind", "notes": "by hand"
    }  # fmt: skip


@pytest.mark.slow
def test_a_job_of_a_sweep_is_one_wandb_run_that_is_offline_without_a_key(inside, tmp_path, monkeypatch):
    from isentropic.train import train

    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    sweep = sweep_of(tmp_path / "grid", "seed=0,1", "algorithm=grpo,dapo")
    folder = job(sweep, "algorithm=grpo,seed=0", "algorithm=grpo", "seed=0", "rollout.steps=1")
    small = ("algorithm=grpo", "rollout.steps=1", "rollout.batch_size=16", "logger=[csv,wandb]", "logger.alias=trl")
    inside(train, *small, folder=f"'{folder}'")
    wandb.teardown()
    found = list(records(folder))
    (run,) = [record.run for record in found if record.HasField("run")]
    assert (run.run_group, run.job_type, run.display_name) == ("grid", "grpo", "algorithm=grpo,seed=0")
    updates = [*run.config.update, *(item for one in found for item in one.config.update)]
    config = {item.key: json.loads(item.value_json) for item in updates}
    assert config["rollout"]["steps"] == 1 and config["algorithm"]["control"]["_target_"].endswith("Constant")
    keys = {"/".join(item.nested_key) for one in found for item in one.history.item}
    assert {"entropy", "grad_norm", "clip_ratio/region_mean", "control/up", "eval/avg@8"} <= keys
