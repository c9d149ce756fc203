import subprocess
import sys
from pathlib import Path

import pytest
import torch

from isentropic.callbacks.checkpoint import Checkpoint, replace

SCRIPT = """
import os, resource, signal, sys
from pathlib import Path
from conftest import Tiny, train
from isentropic.callbacks.checkpoint import Checkpoint

def during(module):
    if module.rollouts == 4:
        {deed}

train(Path(sys.argv[1]), [Checkpoint(every=3)], steps=9, module=Tiny(during=during), enable_checkpointing=True)
"""


def in_a_process_of_its_own(deed, folder):
    script = SCRIPT.format(deed=deed)
    path = Path(__file__).parent
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(path)!r})\n{script}", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def last(folder):
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)


def test_rollouts_are_counted_not_optimizer_steps(run, tiny, tmp_path):
    states = []

    def look(module):
        path = tmp_path / "checkpoints" / "last.ckpt"
        states.append(last(tmp_path)["rollouts"] if path.exists() else None)

    run([Checkpoint(every=2)], steps=5, module=tiny(during=look), enable_checkpointing=True)
    assert states == [None] * 4 + [2] * 4 + [4] * 2
    assert last(tmp_path)["rollouts"] == 5
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["last.ckpt"]


def test_a_resumed_run_equals_one_that_never_stopped(run, tmp_path):
    whole = run([Checkpoint(every=100)], steps=5, enable_checkpointing=True)
    run([Checkpoint(every=100)], steps=3, enable_checkpointing=True)
    rest = run([Checkpoint(every=100)], steps=5, enable_checkpointing=True, ckpt_path=tmp_path / "checkpoints/last.ckpt")
    assert rest.groups == whole.groups[3:] and rest.rollouts == 5
    assert torch.equal(rest.weight, whole.weight)


def test_ctrl_c_ends_the_rollout_saves_and_leaves(tmp_path):
    ended = in_a_process_of_its_own("os.kill(os.getpid(), signal.SIGINT); module.logged = lambda s: {'kept': 1.0}", tmp_path)
    assert ended.returncode == 1, ended.stderr
    assert "Stopping after this rollout" in ended.stderr
    assert last(tmp_path)["rollouts"] == 5
    assert (tmp_path / "metrics.csv").read_text().splitlines()[-1].split(",")[-1] == "5" or "5" in (
        tmp_path / "metrics.csv"
    ).read_text().splitlines()[-1].split(",")


def test_sigterm_does_the_same(tmp_path):
    ended = in_a_process_of_its_own("os.kill(os.getpid(), signal.SIGTERM)", tmp_path)
    assert ended.returncode == 128 + 15, ended.stderr
    assert last(tmp_path)["rollouts"] == 5


def test_a_second_ctrl_c_leaves_at_once_with_what_was_learnt(tmp_path):
    ended = in_a_process_of_its_own("os.kill(os.getpid(), signal.SIGINT); os.kill(os.getpid(), signal.SIGINT)", tmp_path)
    assert ended.returncode == 1, ended.stderr
    assert last(tmp_path)["rollouts"] == 4


def test_on_a_full_disk_the_last_good_checkpoint_survives(tmp_path):
    ended = in_a_process_of_its_own("resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))", tmp_path)
    assert ended.returncode == 1
    error = ended.stderr.strip().splitlines()[-1]
    assert error.startswith("ValueError: the checkpoint of rollout 6 could not be written") and "File too large" in error
    assert "that of rollout 3 is intact" in error
    assert last(tmp_path)["rollouts"] == 3
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["last.ckpt"]


def test_an_error_in_training_leaves_the_last_good_checkpoint_alone(tmp_path):
    assert in_a_process_of_its_own("raise RuntimeError('broken')", tmp_path).returncode == 1
    assert last(tmp_path)["rollouts"] == 3


def test_a_folder_takes_the_place_of_a_folder(tmp_path):
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.shard").write_text(name)
    replace(tmp_path / "new", tmp_path / "old")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.shard")] == ["old/new.shard"]
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_an_interval_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1 rollout"):
        Checkpoint(0)
