import csv
import time

import pytest
import torch
from lightning import LightningModule, Trainer

from isentropic.callbacks.memory import GIB, Memory, Watch
from isentropic.callbacks.throughput import Throughput

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_on_a_cpu_nothing_is_said(run, tmp_path):
    run([Memory(0.01), Throughput()], steps=2)
    header = next(csv.reader((tmp_path / "metrics.csv").open()))
    assert "throughput/step_seconds" in header and not any(name.startswith("memory/") for name in header)


def test_an_interval_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"memory.interval=0 must be above 0 seconds"):
        Memory(0)


@pytest.mark.gpu
@needs_cuda
def test_what_a_card_holds_for_a_moment_is_seen():
    device = torch.device("cuda", 0)
    watch = Watch(device, 0.01)
    try:
        before = watch.used()
        block = torch.empty(2 * GIB, dtype=torch.uint8, device=device)
        time.sleep(0.1)
        del block
        torch.cuda.empty_cache()
        time.sleep(0.1)
        peaks = watch.peaks(0.0)
        assert peaks["allocated"] >= 2 * GIB and peaks["used"] - before >= 2 * GIB
        assert watch.least(0.15) - before < GIB
        watch.begin()
        assert watch.peaks(0.0)["allocated"] < GIB
    finally:
        watch.end()


@pytest.mark.gpu
@needs_cuda
def test_the_watch_ends_with_a_run_that_fails():
    """Lightning tears no callback down then."""
    memory = Memory(0.01)
    memory.watch = Watch(torch.device("cuda", 0), 0.01)
    thread = memory.watch.thread
    memory.on_exception(Trainer(logger=False, accelerator="cpu"), LightningModule(), RuntimeError())
    assert memory.watch is None and not thread.is_alive()
