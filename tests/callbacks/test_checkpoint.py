import csv
import multiprocessing
import os
import resource
import signal
import sys
import traceback

import pytest
import torch
from lightning import Callback

from isentropic.callbacks.checkpoint import Checkpoint, replace


@pytest.fixture
def ending(run, tiny, tmp_path):
    """How a process ends, exit code and last words, in which something happens in the middle of the fifth rollout."""

    def child(deed, further, settings):
        once = iter([deed])
        with (tmp_path / "stderr").open("w") as sys.stderr:
            try:
                module = tiny(during=lambda module: next(once, int)() if module.rollouts == 4 else None)
                run(
                    [*further, Checkpoint(every=3, sharded=False)],
                    steps=9,
                    module=module,
                    enable_checkpointing=True,
                    **settings,
                )
            except Exception as error:
                print(*traceback.format_exception_only(error), file=sys.stderr)
                sys.exit(1)

    def end(deed, further=(), **settings):
        process = multiprocessing.get_context("fork").Process(target=child, args=(deed, further, settings))
        process.start()
        process.join()
        return process.exitcode, (tmp_path / "stderr").read_text().strip()

    return end


def interrupt(number):
    return lambda: os.kill(os.getpid(), number)


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


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_when_asked_to_stop_it_ends_the_rollout_saves_and_leaves(ending, tmp_path, number, code):
    assert ending(interrupt(number)) == (
        code, "Stopping after this rollout, with a checkpoint; again stops at once."
    )  # fmt: skip
    assert last(tmp_path)["rollouts"] == 5
    with (tmp_path / "metrics.csv").open() as file:
        assert [int(row["step"]) for row in csv.DictReader(file)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("number, code", [(signal.SIGUSR1, 138), (signal.SIGUSR2, 140)])
def test_the_warning_of_a_time_limit_does_so_however_often_it_comes(ending, tmp_path, number, code):
    def warn():
        for _ in range(3):
            interrupt(number)()
        interrupt(signal.SIGTERM)()  # as before the end, from which a rollout may still be saved

    assert ending(warn) == (code, "Stopping after this rollout, with a checkpoint; the time limit is near.")
    assert last(tmp_path)["rollouts"] == 5


def test_a_warning_while_the_engine_starts_leaves_before_the_first_rollout(ending, tmp_path):
    class Engine(Callback):
        def on_fit_start(self, trainer, pl_module):
            interrupt(signal.SIGUSR1)()

    assert ending(int, further=[Engine()])[0] == 138
    assert not (tmp_path / "checkpoints").exists()


def test_a_signal_to_one_rank_stops_all_after_the_same_rollout(ending, tmp_path):
    def deed():
        if torch.distributed.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGINT)

    code, _ = ending(deed, strategy="ddp_fork", devices=2)
    assert code == 1
    assert last(tmp_path)["rollouts"] == 5


def test_a_second_ctrl_c_leaves_at_once_with_what_was_learnt(ending, tmp_path):
    def twice():
        interrupt(signal.SIGINT)()
        interrupt(signal.SIGINT)()

    assert ending(twice)[0] == 130
    assert last(tmp_path)["rollouts"] == 4


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


def test_a_folder_takes_the_place_of_a_folder(tmp_path):
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.shard").write_text(name)
    replace(tmp_path / "new", tmp_path / "old")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.shard")] == ["old/new.shard"]
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_an_interval_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1 rollout"):
        Checkpoint(0, sharded=False)
