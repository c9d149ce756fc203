from types import SimpleNamespace

import pytest
import torch

from isentropic.policy import timing
from isentropic.policy.timing import Clock, timed


class Runner:
    device = torch.device("cpu")

    def __init__(self, time):
        self.clock, self.time = Clock(), time

    @timed("lap")
    def run(self, seconds):
        self.time.now += seconds
        return seconds


@pytest.fixture
def runner(monkeypatch) -> Runner:
    time = SimpleNamespace(now=0.0)
    monkeypatch.setattr(timing, "perf_counter", lambda: time.now)
    return Runner(time)


def test_a_part_that_is_gone_through_twice_adds_up_until_it_is_read(runner):
    assert [runner.run(2.0), runner.run(3.0)] == [2.0, 3.0]
    assert runner.clock.seconds() == {"lap": 5.0}
    assert runner.clock.seconds() == {}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_its_work_is_timed_and_not_its_launch(runner):
    runner.device = torch.device("cuda")
    work = torch.ones(8192, 8192, device="cuda")
    timed("product")(lambda self: [work @ work for _ in range(10)])(runner)
    torch.cuda.synchronize()
    assert runner.clock.seconds()["product"] > 0.01
