"""A run that is killed in the middle of its conversations goes on as if nothing had been."""

import csv
import json
import signal
import sys
from pathlib import Path

import pytest
import torch
from fixtures.processes import SMALL

from isentropic.sampler.vllm.colocated import available

SCRIPT = Path(__file__).with_name("turns_killed.py")
SETTINGS = [
    *SMALL, "experiment=calculator", "algorithm=stare", "rollout.steps=4",
    "task._target_=turns_killed.Programs", "callbacks.checkpoint.every=1", "callbacks.checkpoint.keep=4",
]  # fmt: skip
needs_vllm = pytest.mark.skipif(not available(), reason="vLLM is not installed")
CLOCKS = ("throughput/", "memory/", "sampler/idle_share")  # an engine idles while worlds answer


def rows(folder):
    """Of each rollout what was logged last, but for what clocks say."""
    found = {}
    for file in sorted(folder.glob("metrics*.csv"), reverse=True):
        with file.open() as lines:
            found |= {
                int(row["step"]): {name: value for name, value in row.items() if not name.startswith(CLOCKS)}
                for row in csv.DictReader(lines)
                if row["policy/loss"]
            }
    return found


def samples(folder):
    lines = [json.loads(line) for file in folder.glob("samples*.jsonl") for line in file.read_text().splitlines()]
    return {json.dumps(line, sort_keys=True) for line in lines}


def weights(folder):
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["transformers", pytest.param("vllm", marks=needs_vllm)])
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a cage")
def test_a_run_that_is_killed_between_turns_goes_on_as_one_that_never_was(forks, tmp_path, sampler):
    def run(folder, *settings, **variables):
        arguments = [*SETTINGS, f"sampler={sampler}", f"hydra.run.dir={folder}", *settings]
        kind = "engine" if sampler == "vllm" else "plain"
        (done,) = forks(SCRIPT, (arguments, variables), kind=kind)
        return done

    whole, part = tmp_path / "whole", tmp_path / "part"
    done = run(whole)
    assert done.returncode == 0, done.stderr
    turns = [float(row["rollout/turns"]) for row in rows(whole).values()]
    assert len(turns) == 4 and min(turns) > 2, "hardly any has a second turn"
    killed = run(part, AFTER=str(part))
    assert killed.returncode == -signal.SIGKILL and "killed between turns" in killed.stdout, killed.stderr
    assert list(rows(part)) in ([1], [1, 2])
    resumed = run(part, f"ckpt_path={part}/checkpoints/last.ckpt", "rollout.turns.workers=1")
    assert resumed.returncode == 0, resumed.stderr
    assert rows(part) == rows(whole)
    assert samples(part) == samples(whole) != set()
    for name, value in weights(part).items():
        assert torch.equal(value, weights(whole)[name]), name
