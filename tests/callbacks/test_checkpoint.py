import multiprocessing
import os
import resource
import signal
import sys

import pytest
import torch
from lightning import Trainer
from torch.distributed.checkpoint.api import CheckpointException

from isentropic.callbacks.checkpoint import Checkpoint, reason, remove, replace


def last(folder):
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)


def test_rollouts_are_counted_not_optimizer_steps(run, tiny, tmp_path):
    states = []

    def look(module):
        path = tmp_path / "checkpoints" / "last.ckpt"
        states.append(last(tmp_path)["rollouts"] if path.exists() else None)

    run([Checkpoint(every=2, sharded=False)], steps=5, module=tiny(during=look), enable_checkpointing=True)
    assert states == [None] * 4 + [2] * 4 + [4] * 2
    assert last(tmp_path)["rollouts"] == 5
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["last.ckpt"]


def test_a_resumed_run_equals_one_that_never_stopped(run, tmp_path):
    whole = run([Checkpoint(every=100, sharded=False)], steps=5, enable_checkpointing=True)
    run([Checkpoint(every=100, sharded=False)], steps=3, enable_checkpointing=True)
    path = tmp_path / "checkpoints" / "last.ckpt"
    rest = run([Checkpoint(every=100, sharded=False)], steps=5, enable_checkpointing=True, ckpt_path=path)
    assert rest.groups == whole.groups[3:] and rest.rollouts == 5
    assert torch.equal(rest.weight, whole.weight)


def test_on_a_full_disk_the_last_good_checkpoint_survives(ending, tmp_path):
    code, error = ending(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)))
    assert code == 1 and error.startswith("OSError: the checkpoint of rollout 6 could not be written")
    assert "File too large" in error and "that of rollout 3 is intact" in error and "\n" not in error
    assert last(tmp_path)["rollouts"] == 3
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["last.ckpt"]


def test_an_error_in_training_leaves_the_last_good_checkpoint_alone(ending, tmp_path):
    def fail():
        raise RuntimeError("broken")

    assert ending(fail) == (1, "RuntimeError: broken")
    assert last(tmp_path)["rollouts"] == 3


def folder(path, content):
    path.mkdir(parents=True)
    for rank in range(2):
        (path / f"{rank}.shard").write_text(content)
    return path


def held(path):
    """What lies in a checkpoint, all of whose parts must be of the same time."""
    contents = {part.read_text() for part in path.glob("*.shard")}
    assert len(contents) == 1 and len(list(path.iterdir())) == 2
    return contents.pop()


def test_a_folder_takes_the_place_of_a_file_of_a_folder_and_of_itself(tmp_path):
    path = tmp_path / "last.ckpt"
    path.write_text("of one file")
    for count in (3, 6, 6, 9):
        replace(folder(tmp_path / "new", f"{count}"), path, count)
        assert held(path) == f"{count}"
        assert len(list(tmp_path.iterdir())) == 2, "an older one is left"
    (tmp_path / "new").write_text("of one file")
    replace(tmp_path / "new", path, 12)
    assert [p.name for p in tmp_path.iterdir()] == ["last.ckpt"] and path.read_text() == "of one file"


def test_a_folder_that_was_copied_in_place_of_the_link_is_replaced_too(tmp_path):
    path = folder(tmp_path / "last.ckpt", "3")
    replace(folder(tmp_path / "new", "6"), path, 6)
    assert held(path) == "6" and {p.name for p in tmp_path.iterdir()} == {"last.ckpt", "rollout_6"}


def killed_at(step, *arguments):
    """Whether the process that replaces one by another was killed at its step-th change to the disk."""

    def child():
        changes = iter(range(step + 1))

        def watch(event, _):
            if event in ("os.rename", "os.symlink", "os.remove", "os.rmdir", "os.mkdir") and next(changes) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        replace(*arguments)
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    return process.exitcode == -signal.SIGKILL


def test_whoever_is_killed_while_replacing_leaves_one_whole_checkpoint(tmp_path):
    seen = []
    for step in range(50):
        run = tmp_path / str(step)
        path = run / "last.ckpt"
        replace(folder(run / "new", "old"), path, 3)
        killed = killed_at(step, folder(run / "new", "new"), path, 6)
        seen.append(held(path))
        if not killed:
            break
        replace(folder(run / "newer", "newer"), path, 9)  # the next save leaves nothing of this behind
        (run / "new").exists() and remove(run / "new")
        assert held(path) == "newer" and {p.name for p in run.iterdir()} == {"last.ckpt", "rollout_9"}
    assert not killed and len(seen) > 4
    assert seen == sorted(seen, key=["old", "new"].index) and set(seen) == {"old", "new"}


def test_shards_are_for_those_whose_ranks_have_them(tmp_path):
    trainer = Trainer(default_root_dir=tmp_path, accelerator="cpu", devices=1, logger=False)
    Checkpoint(1, sharded=False).check(trainer)
    with pytest.raises(ValueError, match="is for trainer=fsdp"):
        Checkpoint(1, sharded=True).check(trainer)


def test_of_ranks_that_failed_the_first_is_heard():
    full = OSError(28, "No space left on device")
    assert reason(CheckpointException("write", {1: (full, None)})) == "[Errno 28] No space left on device"


def test_an_interval_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1 rollout"):
        Checkpoint(0, sharded=False)
