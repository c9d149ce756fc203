import csv

import pytest
from fixtures.models import saving

from isentropic.callbacks.run import SamplerPhases
from isentropic.callbacks.throughput import Throughput


class Clock:
    """A clock that only moves when told to."""

    now = 0.0

    def monotonic(self):
        return self.now


class Phases(SamplerPhases):
    """Sampling takes 3 s, the sampler's going to sleep 1 s, the update 2 s, the sync 1 s, an evaluation 50 s."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.clock.now += 3 + 1
        self.seconds.sleep = 1.0

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.clock.now += 2 + 1
        self.seconds.sync = 1.0

    def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
        self.clock.now += 50


def test_each_phase_is_timed_and_evaluation_is_none_of_them(run, tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr("isentropic.callbacks.throughput.time", clock)
    run([Phases(clock), Throughput()], steps=3, limit_val_batches=1, val_check_interval=1)
    with (tmp_path / "metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["throughput/step_seconds"]]
    assert [int(row["step"]) for row in rows] == [1, 2, 3]
    for row in rows:
        seconds = {name: float(row[f"throughput/{name}_seconds"]) for name in ("sample", "update", "step")}
        assert seconds == {"sample": 3, "update": 2, "step": 7}
        assert float(row["throughput/tokens_per_second"]) == pytest.approx(8 / 7)


def test_what_was_spent_adds_up_over_the_parts_of_a_resumed_run(run, tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr("isentropic.callbacks.throughput.time", clock)
    run(
        [Phases(clock), Throughput(), saving(1)],
        steps=2,
        enable_checkpointing=True,
    )
    (tmp_path / "metrics.csv").rename(tmp_path / "metrics.1.csv")
    path = tmp_path / "checkpoints" / "last.ckpt"
    run(
        [Phases(clock), Throughput(), saving(1)],
        steps=5,
        enable_checkpointing=True,
        ckpt_path=path,
    )
    rows = [
        row
        for name in ("metrics.1.csv", "metrics.csv")
        for row in csv.DictReader((tmp_path / name).open())
        if row["throughput/tokens"]
    ]
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4, 5]
    assert [float(row["throughput/tokens"]) for row in rows] == [10, 20, 30, 40, 50]
    assert [float(row["throughput/seconds"]) for row in rows] == [7, 14, 21, 28, 35]


def test_the_parts_of_the_update_are_told_by_the_policy(parts, tmp_path):
    sampler, module = parts.scripted(parts.some_right), parts.learner(mini_batch=8)
    data = parts.rollouts(sampler, steps=2)
    parts.trainer(tmp_path, [Throughput()]).fit(module, data)
    rows = list(csv.DictReader((tmp_path / "metrics.csv").open()))
    for row in rows:
        read, optimizer, update = (float(row[f"throughput/{n}_seconds"]) for n in ("read", "optimizer", "update"))
        assert 0 < read < update and 0 < optimizer < update - read
