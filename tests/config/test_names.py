import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from isentropic.config.names import apart, job_name, name_sweep, quoted, sweep_name

GRID = ["experiment=quickstart", "algorithm=grpo,dapo", "seed=0,1", "rollout.steps=50"]


def sweep(*overrides: str) -> str:
    return sweep_name(*apart(overrides))


def test_a_sweep_is_named_by_what_is_set_and_what_varies():
    assert sweep(*GRID) == "quickstart_steps=50_algorithm_seed_" + sweep(*GRID)[-6:]


def test_the_page_of_sweeps_shows_the_folder_of_its_command():
    page = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text()
    command = re.search(r"^isentropic train -m (.+)$", page, re.M)[1]
    assert set(re.findall(r"logs/train/multiruns/(\w+)", page)) == {sweep(*command.split())}


def test_more_values_another_order_and_where_jobs_run_leave_the_name():
    more = ["hydra.launcher.jobs=2", "seed=range(5)", "rollout.steps=50", "algorithm=stare,grpo,dapo", GRID[0]]
    assert sweep(*more) == sweep(*GRID)


@pytest.mark.parametrize("other", [["rollout.steps=51"], ["algorithm=grpo"], ["policy.optimization.lr=1e-4,1e-5"]])
def test_another_setting_or_key_makes_another_sweep(other):
    assert sweep(*GRID[:3], *other) not in (sweep(*GRID), sweep(*GRID[:3]))


@pytest.mark.parametrize(
    "task, name",
    [
        (["seed=0", "algorithm=grpo"], "algorithm=grpo,seed=0"),
        (["algorithm/credit=[stapo,stare]"], "algorithm.credit=stapo+stare"),
        (["+algorithm/penalty=[]", "policy.lr=1.0e-05"], "algorithm.penalty=,policy.lr=1.0e-05"),
        ([], "job"),
    ],
)  # fmt: skip
def test_a_job_is_named_by_what_it_does_not_share(task, name):
    assert job_name([*task, "rollout.steps=50"], ["rollout.steps=50"]) == name


def test_what_a_folder_cannot_be_called_is_told_apart_by_a_mark():
    names = {job_name([f"policy.model.path={path}"], []) for path in ("/a/b", "/a-b", "ä b", "a" * 300, "a" * 301)}
    assert len(names) == 5
    assert all(len(name) < 140 and name.isascii() and not set(name) & set("/\\ '\"*?:") for name in names)


def test_configs_speak_of_the_command_line():
    name_sweep(GRID)
    cfg = OmegaConf.create({"task": ["rollout.steps=50", "seed=3"], "a": "${sweep_name:}", "b": "${job_name:${task}}"})
    assert cfg.a == sweep(*GRID) and cfg.b == "seed=3"


def test_a_path_that_is_there_is_read_as_one_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("a=1,b=2").mkdir()
    assert quoted("ckpt_path=a=1,b=2") == "ckpt_path='a=1,b=2'"
    for same in ("ckpt_path=a=1,b=3", "seed=0,1", "-m", "--config-dir=a=1,b=2"):
        assert quoted(same) == same
