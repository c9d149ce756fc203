import csv
import os
import signal

import pytest
import torch
from lightning import Callback


def interrupt(number):
    return lambda: os.kill(os.getpid(), number)


def last(folder):
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_when_asked_to_stop_it_ends_the_rollout_saves_and_leaves(ending, tmp_path, number, code):
    assert ending(interrupt(number)) == (
        code, "Stopping after this rollout, with a checkpoint; again stops at once."
    )  # fmt: skip
    assert last(tmp_path)["rollouts"] == 5
    with (tmp_path / "metrics.csv").open() as file:
        assert [int(row["step"]) for row in csv.DictReader(file)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("number, code", [(signal.SIGUSR1, 138), (signal.SIGUSR2, 140), (signal.SIGXCPU, 152)])
def test_the_warning_of_a_time_limit_does_so_however_often_it_comes(ending, tmp_path, number, code):
    def warn():
        for _ in range(3):
            interrupt(number)()
        interrupt(signal.SIGTERM)()  # as before the end, from which a rollout may still be saved

    assert ending(warn) == (code, "Stopping after this rollout, with a checkpoint; the time limit is near.")
    assert last(tmp_path)["rollouts"] == 5


def test_a_closed_terminal_asks_nothing_of_a_run_that_nohup_started(ending, tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert ending(interrupt(signal.SIGHUP)) == (0, "")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert last(tmp_path)["rollouts"] > 5


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


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_leaves_at_once_and_saves_no_half_of_a_rollout_s_updates(ending, tmp_path, first):
    """After the first of the fifth rollout's two optimizer steps; the last checkpoint is of three."""

    def twice():
        interrupt(first)()
        interrupt(signal.SIGINT)()

    assert ending(twice)[0] == 130
    assert last(tmp_path)["rollouts"] == 3 and last(tmp_path)["global_step"] == 6
