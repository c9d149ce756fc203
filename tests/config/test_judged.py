"""An evaluation takes the settings of the run that it judges."""

import json
from pathlib import Path

import pytest

from isentropic.config.compose import CONFIGS, compose, loader_of
from isentropic.config.judged import differences, with_run
from isentropic.runs.renamed import KEYS
from isentropic.runs.status import recorded

OLD = next(key for key, new in KEYS.items() if new == "rollout.evaluation")
TOLD = [
    "experiment=quickstart", "seed=7", f"{OLD}.count=16", "+trainer.max_time=00:01:00:00", "logger=wandb",
    "tags=[mine]", "hydra.run.dir=x", "callbacks.memory=null", "~callbacks.samples", "algorithm/credit=[stapo]",
]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with recorded(tmp_path, TOLD):
        pass
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/last.ckpt").touch()
    return tmp_path


def test_what_a_run_was_told_comes_first_and_the_command_line_last(run: Path):
    given = ["rollout.evaluation.split=validation", f"ckpt_path={run}/checkpoints/last.ckpt"]
    kept = ["experiment=quickstart", "seed=7", "rollout.evaluation.count=16", "algorithm/credit=[stapo]"]
    assert with_run(given) == [*kept, *given]
    assert with_run(["seed=8", *given]) == [one for one in kept if one != "seed=7"] + ["seed=8", *given]


def test_a_run_s_folder_stands_for_its_last_checkpoint(run: Path):
    assert with_run([f"ckpt_path={run}"])[-1] == f"ckpt_path={run}/checkpoints/last.ckpt"
    assert with_run([f"ckpt_path={run}/"])[-1] == f"ckpt_path={run}/checkpoints/last.ckpt"


@pytest.mark.parametrize("line", ["ckpt_path=null", "ckpt_path=nowhere/last.ckpt", "seed=1"])
def test_without_a_run_nothing_is_added(line: str):
    assert with_run([line]) == [line]


def test_what_differs_from_the_run_is_said(run: Path):
    settings = {"seed": 7, "rollout": {"evaluation": {"count": 64, "batch": 3}, "decoding": {"temperature": 1.0}}}
    (run / "config.yaml").write_text(json.dumps(settings))
    lines = ["experiment=quickstart", f"ckpt_path='{run}/checkpoints/last.ckpt'", "seed=7"]
    cfg = compose(loader_of(CONFIGS), "eval", lines)
    count = cfg.rollout.evaluation.count
    assert list(differences(cfg)) == [f"rollout.evaluation.count={count}, and the run had 64"]


def test_a_run_from_when_test_problems_followed_its_seed_is_judged_by_its_own(run: Path):
    settings = {
        "seed": 7,
        "task": {"_target_": "isentropic.task.countdown.Countdown", "seed": 7},
        "rollout": {"seed": 7},
    }
    (run / "config.yaml").write_text(json.dumps(settings))
    cfg = compose(loader_of(CONFIGS), "eval", with_run([f"ckpt_path={run}"]))
    assert (cfg.task.test_seed, cfg.rollout.evaluation.seed) == (7, 7)
    chosen = compose(loader_of(CONFIGS), "eval", with_run(["task.test_seed=3", f"ckpt_path={run}"]))
    assert chosen.task.test_seed == 3
    own = settings | {"task": {"_target_": "mine.Task", "seed": 7}}
    (run / "config.yaml").write_text(json.dumps(own))
    assert not any(one.startswith("task.") for one in with_run([f"ckpt_path={run}"]))


def test_a_run_of_now_is_judged_as_it_was(run: Path):
    settings = {"seed": 7, "task": {"_target_": "isentropic.task.countdown.Countdown", "seed": 7, "test_seed": 0}}
    (run / "config.yaml").write_text(json.dumps(settings | {"rollout": {"seed": 7, "evaluation": {"seed": 0}}}))
    cfg = compose(loader_of(CONFIGS), "eval", with_run([f"ckpt_path={run}"]))
    assert (cfg.task.test_seed, cfg.rollout.evaluation.seed) == (0, 0)
