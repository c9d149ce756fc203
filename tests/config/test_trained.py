import json

import pytest
import yaml
from omegaconf import OmegaConf

from isentropic.config.build import BadInput
from isentropic.config.compose import CONFIGS, compose, loader_of
from isentropic.config.trained import trained_on


def a_run(folder, *overrides):
    cfg = compose(loader_of(CONFIGS), "train", ["experiment=quickstart", *overrides, "paths.output=."])
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump({"task": OmegaConf.to_container(cfg.task, resolve=True)}))
    return folder


def test_a_run_names_its_data_and_what_it_learnt_from_without_test_problems(tmp_path):
    for name, asked in (("train", range(6)), ("test", range(2))):
        rows = [json.dumps({"question": f"What is the double of {i}{i}{i}?", "answer": str(i)}) for i in asked]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    data = [f"task.path={tmp_path}/train.jsonl", f"task.test={tmp_path}/test.jsonl", "task.held_out=0"]
    names, prompts = trained_on(a_run(tmp_path / "run", "task=data", *data, "task.template='{question}'"))
    assert names == [f"{tmp_path}/train.jsonl"]
    assert prompts == [f"What is the double of {i}{i}{i}?" for i in range(2, 6)]


def test_a_task_that_makes_up_its_problems_has_no_set(tmp_path):
    assert trained_on(a_run(tmp_path / "run", "task=arithmetic")) == ([], [])


@pytest.mark.parametrize(("config", "said"), [(None, "has no config.yaml"), ("a: 1", "names no task")])
def test_a_folder_that_is_no_run_is_named(tmp_path, config, said):
    if config:
        (tmp_path / "config.yaml").write_text(config)
    with pytest.raises(BadInput, match=said):
        trained_on(tmp_path)
