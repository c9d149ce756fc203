import csv
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import time

import pytest
import torch
from fixtures.models import saving
from lightning import Callback, Trainer
from torch.distributed.checkpoint.api import CheckpointException

from isentropic.callbacks.checkpoint import Checkpoint, reason, remove, replace
from isentropic.train import set_aside


def files(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def last(folder):
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)


def test_rollouts_are_counted_not_optimizer_steps(run, tiny, tmp_path):
    states = []

    def look(module):
        path = tmp_path / "checkpoints" / "last.ckpt"
        states.append(last(tmp_path)["rollouts"] if path.exists() else None)

    run(
        [saving(2)],
        steps=5,
        module=tiny(during=look),
        enable_checkpointing=True,
    )
    assert states == [None] * 4 + [2] * 4 + [4] * 2
    assert last(tmp_path)["rollouts"] == 5
    assert files(tmp_path) == ["last.ckpt", "rollout_4.ckpt", "rollout_5.ckpt"]


@pytest.mark.parametrize("keep, kept", [(0, [5]), (1, [4, 5]), (2, [2, 4, 5]), (9, [2, 4, 5])])
def test_so_many_of_before_stay(run, tmp_path, keep, kept):
    run([Checkpoint(every=2, sharded=False, keep=keep, best=None)], steps=5, enable_checkpointing=True)
    assert files(tmp_path) == ["last.ckpt", *(f"rollout_{count}.ckpt" for count in kept)]
    for count in kept:
        assert torch.load(tmp_path / f"checkpoints/rollout_{count}.ckpt", weights_only=True)["rollouts"] == count


def test_the_best_by_an_evaluation_stays_also_when_a_run_goes_on(run, tiny, tmp_path):
    class Falling(tiny):
        """Its scores are highest after rollout 4."""

        def validation_step(self, batch, batch_idx):
            self.log("eval/avg@8", 0.5 - abs(self.rollouts - 4) / 10)

    def best():
        return [Checkpoint(every=3, sharded=False, keep=0, best="eval/avg@8")]

    settings = {"enable_checkpointing": True, "limit_val_batches": 1, "val_check_interval": 2}
    run(best(), steps=6, module=Falling(), **settings)
    folder = tmp_path / "checkpoints"
    assert files(tmp_path) == ["best.ckpt", "best.json", "last.ckpt", "rollout_4.ckpt", "rollout_6.ckpt"]
    assert (folder / "best.ckpt").readlink().name == "rollout_4.ckpt"
    told = json.loads((folder / "best.json").read_text())
    assert (told["rollout"], told["metric"]) == (4, "eval/avg@8") and told["score"] == pytest.approx(0.5)
    run(best(), steps=8, module=Falling(), ckpt_path=folder / "last.ckpt", **settings)
    assert (folder / "best.ckpt").readlink().name == "rollout_4.ckpt" and "rollout_8.ckpt" in files(tmp_path)


def test_a_score_that_no_evaluation_gives_is_refused_and_so_is_the_test_split(tmp_path):
    chosen = Checkpoint(every=1, sharded=False, keep=0, best="eval/avg@8")
    trainer = Trainer(default_root_dir=tmp_path, accelerator="cpu", devices=1, logger=False)
    with pytest.raises(ValueError, match=r"best=eval/avg@8 is no score of an evaluation; there are eval/pass@4"):
        chosen.check(trainer, "validation", ["eval/pass@4"])
    with pytest.raises(ValueError, match="would choose a checkpoint by the test split"):
        chosen.check(trainer, "test", ["eval/avg@8"])
    chosen.check(trainer, "validation", ["eval/avg@8"])


def steps_of(folder):
    return sorted(step for file in folder.glob("metrics*.csv") for step in rows_of(file))


def rows_of(file):
    with file.open() as lines:
        return [int(float(row["step"])) for row in csv.DictReader(lines) if row["rollout/reward"]]


def test_the_row_of_a_run_that_was_killed_after_its_checkpoint_comes_when_it_goes_on(run, tmp_path):
    class Killed(Checkpoint):
        def save(self, trainer, pl_module):
            super().save(trainer, pl_module)
            if pl_module.rollouts == 6:
                os.kill(os.getpid(), signal.SIGKILL)

    def child():
        run([Killed(every=2, sharded=False, keep=1, best=None)], steps=9, enable_checkpointing=True)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL and steps_of(tmp_path) == [1, 2, 3, 4, 5]
    (tmp_path / "metrics.csv").rename(tmp_path / "metrics.1.csv")
    path = tmp_path / "checkpoints" / "last.ckpt"
    run([saving(9)], steps=8, enable_checkpointing=True, ckpt_path=path)
    assert steps_of(tmp_path) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_checkpoint_passes_through_no_other_folder(run, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    run([saving(1)], steps=2, enable_checkpointing=True)
    assert last(tmp_path)["rollouts"] == 2 and not (tmp_path / "nowhere").exists()


def test_a_resumed_run_equals_one_that_never_stopped(run, tmp_path):
    whole = run([saving(100)], steps=5, enable_checkpointing=True)
    run([saving(100)], steps=3, enable_checkpointing=True)
    path = tmp_path / "checkpoints" / "last.ckpt"
    rest = run([saving(100)], steps=5, enable_checkpointing=True, ckpt_path=path)
    assert rest.groups == whole.groups[3:] and rest.rollouts == 5
    assert torch.equal(rest.weight, whole.weight)


def test_on_a_full_disk_the_last_good_checkpoint_survives(ending, tmp_path):
    code, error = ending(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)))
    assert code == 1 and error.startswith("OSError: the checkpoint of rollout 6 could not be written")
    assert "File too large" in error and "that of rollout 3 is intact" in error and "\n" not in error
    assert last(tmp_path)["rollouts"] == 3
    assert files(tmp_path) == ["last.ckpt", "rollout_3.ckpt"]


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
        replace(folder(tmp_path / "new", f"{count}"), path, count, keep=0)
        assert held(path) == f"{count}"
        assert len(list(tmp_path.iterdir())) == 2, "an older one is left"
    (tmp_path / "new").write_text("of one file")
    replace(tmp_path / "new", path, 12, keep=0)
    assert {p.name for p in tmp_path.iterdir()} == {"last.ckpt", "rollout_12.ckpt"}
    assert path.read_text() == "of one file"


def test_a_folder_that_was_copied_in_place_of_the_link_is_replaced_too(tmp_path):
    path = folder(tmp_path / "last.ckpt", "3")
    replace(folder(tmp_path / "new", "6"), path, 6, keep=0)
    assert held(path) == "6" and {p.name for p in tmp_path.iterdir()} == {"last.ckpt", "rollout_6.ckpt"}


def test_a_folder_of_before_whose_name_had_no_ending_is_replaced_too(tmp_path):
    folder(tmp_path / "rollout_3", "3")
    (tmp_path / "last.ckpt").symlink_to("rollout_3")
    replace(folder(tmp_path / "new", "6"), tmp_path / "last.ckpt", 6, keep=0)
    assert {p.name for p in tmp_path.iterdir()} == {"last.ckpt", "rollout_6.ckpt"}


def killed_at(step, *arguments):
    """Whether the process that replaces one by another was killed at its step-th change to the disk."""

    def child():
        changes = iter(range(step + 1))

        def watch(event, _):
            if event in ("os.rename", "os.symlink", "os.remove", "os.rmdir", "os.mkdir") and next(changes) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        replace(*arguments, keep=0)
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    return process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("sharded", [True, False])
def test_whoever_is_killed_while_replacing_leaves_one_whole_checkpoint(tmp_path, sharded):
    def made(at, content):
        if sharded:
            return folder(at, content)
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(content)
        return at

    def read(path):
        return held(path) if sharded else path.read_text()

    seen = []
    for step in range(50):
        run = tmp_path / str(step)
        path = run / "last.ckpt"
        replace(made(run / "new", "old"), path, 3, keep=0)
        killed = killed_at(step, made(run / "new", "new"), path, 6)
        seen.append(read(path))
        if not killed:
            break
        replace(made(run / "newer", "newer"), path, 9, keep=0)  # the next save leaves nothing of this behind
        (run / "new").exists() and remove(run / "new")
        assert read(path) == "newer" and {p.name for p in run.iterdir()} == {"last.ckpt", "rollout_9.ckpt"}
    assert not killed and len(seen) > 3
    assert seen == sorted(seen, key=["old", "new"].index) and set(seen) == {"old", "new"}


def test_shards_are_for_those_whose_ranks_have_them(tmp_path):
    trainer = Trainer(default_root_dir=tmp_path, accelerator="cpu", devices=1, logger=False)
    saving(1).check(trainer, "test", [])
    with pytest.raises(ValueError, match="is for trainer=fsdp"):
        Checkpoint(every=1, sharded=True, keep=1, best=None).check(trainer, "test", [])


def test_of_ranks_that_failed_the_first_is_heard():
    full = OSError(28, "No space left on device")
    assert reason(CheckpointException("write", {1: (full, None)})) == "[Errno 28] No space left on device"


def test_where_torch_stumbles_over_a_full_disk_the_disk_is_heard():
    try:
        try:
            raise OSError(28, "No space left on device")
        finally:
            raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0")
    except RuntimeError as error:
        assert reason(error) == "[Errno 28] No space left on device"
    assert reason(RuntimeError("of its own")) == "of its own"


class Counts(Callback):
    def __init__(self):
        self.count = 0

    def on_train_batch_end(self, *args):
        self.count += 1


class Keeps(Counts):
    def state_dict(self):
        return {"count": self.count}


@pytest.mark.parametrize("kind", [Counts, Keeps])
def test_a_callback_of_ones_own_that_forgets_is_told_of_once(run, tmp_path, capsys, kind):
    run([saving(1), kind()], steps=3, enable_checkpointing=True)
    said = capsys.readouterr().err
    assert said.count("warning: callback Counts: Counts.count has changed during the run and would be") == (
        kind is Counts
    )


def test_an_interval_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1 rollout"):
        saving(0)


@pytest.mark.slow
def test_a_run_that_is_killed_at_random_moments_learns_what_one_does_that_never_was(run, tmp_path):
    """The seed is printed; SEED=... repeats it."""
    seed = int(os.environ.get("SEED", time.time_ns() % 10**6))
    print(f"SEED={seed}")
    draw = random.Random(seed)
    whole = run([saving(3)], steps=40, enable_checkpointing=True)
    rows = values_of(tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    (tmp_path / "metrics.csv").unlink()
    path, kills, longest = tmp_path / "checkpoints" / "last.ckpt", 0, 0.6
    for _ in range(200):
        going_on = {"ckpt_path": path} if path.exists() else {}
        set_aside(tmp_path / "metrics.csv", resumed=True)
        process = multiprocessing.get_context("fork").Process(
            target=run, args=([saving(3)],), kwargs={"steps": 40, "enable_checkpointing": True} | going_on
        )
        process.start()
        process.join(draw.uniform(0.01, longest) if kills < 8 else None)
        if process.exitcode == 0:
            if kills:
                break
            longest /= 2  # it was over before it could be killed: once more, from the start
            shutil.rmtree(tmp_path / "checkpoints")
            for file in tmp_path.glob("metrics*.csv"):
                file.unlink()
            continue
        kills += 1
        process.kill()
        process.join()
    assert process.exitcode == 0 and kills > 0
    assert values_of(tmp_path) == rows
    assert torch.equal(last(tmp_path)["state_dict"]["weight"], whole.weight)


def values_of(folder):
    """Of each rollout all that was logged, whatever part of the run wrote it, and however often."""
    found = {}
    for file in folder.glob("metrics*.csv"):
        with file.open() as lines:
            for row in csv.DictReader(lines):
                if row["rollout/reward"]:
                    found.setdefault(int(float(row["step"])), set()).add(tuple(sorted(row.items())))
    return found
