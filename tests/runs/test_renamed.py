"""Names of before: answered with those of now, and read in old run folders."""

import pytest

from isentropic.config.build import BadInput
from isentropic.config.compose import check_jobs, compose, loader_of
from isentropic.config.entry import CONFIGS
from isentropic.runs import renamed
from isentropic.runs.settings import flat

LOADER = loader_of(CONFIGS)
OLD = """\
rollout:
  _target_: isentropic.rollout.datamodule.RolloutDataModule
  size: 256
  judging:
    _target_: isentropic.rollout.datamodule.Judging
    decoding:
      max_tokens: 32
callbacks:
  sampler:
    _target_: isentropic.callbacks.sampler.SamplerCallback
    tolerance: 0.01
task:
  _target_: isentropic.task.countdown.Countdown
"""


def test_an_old_config_is_read_under_the_names_of_today():
    assert flat(OLD) == {
        "rollout._target_": "isentropic.rollout.datamodule.RolloutDataModule",
        "rollout.batch_size": 256,
        "rollout.evaluation._target_": "isentropic.rollout.datamodule.EvaluationSettings",
        "rollout.evaluation.decoding.max_tokens": 32,
        "callbacks.weight_sync._target_": "isentropic.callbacks.weight_sync.WeightSync",
        "callbacks.weight_sync.tolerance": 0.01,
        "task._target_": "isentropic.task.countdown.Countdown",
    }


@pytest.mark.parametrize("key", sorted({*renamed.KEYS, *renamed.GONE} - {"ckpt"}))
@pytest.mark.parametrize(
    "line", ["{}=1", *(pytest.param(one, marks=pytest.mark.slow) for one in ("+{}=1", "~{}", "{}.x=1"))]
)
def test_an_old_key_is_answered_with_the_new_one(key: str, line: str):
    name = {"benchmark": "benchmark", "card": "plan"}.get(key.split(".")[0], "train")
    chosen = ["sampler=vllm_server"] if key == "sampler.patience" else []
    with pytest.raises(BadInput) as caught:
        check_jobs(LOADER, name, [*chosen, line.format(key)], sweep=False)
    told = f"is now called {renamed.KEYS[key]}" if key in renamed.KEYS else f"{key} is gone; {renamed.GONE[key]}"
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("option", renamed.OPTIONS)
def test_an_old_option_is_answered_with_the_new_one(option: str):
    group, _, name = option.partition("=")
    for line in (option, f"{group}=[{name}]"):
        with pytest.raises(BadInput, match=f"^{option} is now called {renamed.OPTIONS[option]}$"):
            compose(LOADER, "train", [line])


def test_an_old_key_in_an_experiment_is_answered_too(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\nrollout: {size: 8}\n")
    with pytest.raises(BadInput, match=r"^rollout\.size is now called rollout\.batch_size$"):
        check_jobs(loader_of(CONFIGS, str(tmp_path)), "train", ["experiment=mine"], sweep=False)


@pytest.mark.parametrize("target", sorted(set(renamed.TARGETS.values())))
def test_every_new_path_is_there(target: str):
    from hydra.utils import get_object

    get_object(target)
