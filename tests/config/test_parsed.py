"""A config is made of files that were parsed before, and is its own nonetheless."""

import os
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from isentropic.config.compose import CONFIGS, compose, loader_of
from isentropic.config.loader import ConfigLoader
from isentropic.config.parsed import copies


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"# @package _global_\n{text}\n")


def test_one_loader_reads_a_file_that_changes_again(tmp_path: Path):
    loader = loader_of(CONFIGS, str(tmp_path))
    for clip in (0.5, 0.75):
        write(tmp_path / "experiment/changing.yaml", f"algorithm: {{clipping: {{high: {clip}}}}}")
        assert compose(loader, "train", ["experiment=changing", f"tags=[{clip}]"]).algorithm.clipping.high == clip


def test_files_of_one_name_in_two_folders_are_two_files(tmp_path: Path):
    for seed in (1, 2, 1):
        write(tmp_path / f"{seed}/experiment/mine.yaml", f"seed: {seed}")
        os.utime(tmp_path / f"{seed}/experiment/mine.yaml", (0, 0))
        for line in ([], ["tags=[a]"]):
            loader = loader_of(CONFIGS, str(tmp_path / str(seed)))
            assert compose(loader, "train", ["experiment=mine", *line]).seed == seed


def test_links_are_followed_to_where_they_lead_when_a_loader_is_made(tmp_path: Path):
    write(tmp_path / "elsewhere.yaml", "seed: 3")
    for seed in (1, 2):
        write(tmp_path / f"{seed}/experiment/mine.yaml", f"seed: {seed}")
        (tmp_path / f"{seed}/experiment/linked.yaml").symlink_to(tmp_path / "elsewhere.yaml")
        (tmp_path / "now").unlink(missing_ok=True)
        (tmp_path / "now").symlink_to(tmp_path / str(seed))
        loader = loader_of(CONFIGS, str(tmp_path / "now"))
        assert compose(loader, "train", ["experiment=mine"]).seed == seed
        assert compose(loader, "train", ["experiment=linked"]).seed == 3
        assert {"mine", "linked"} < set(loader.get_group_options("experiment"))
        assert not loader.repository.group_exists("experiment/mine") and loader.repository.group_exists("experiment")


@pytest.mark.parametrize("line", [[], ["seed=5"], ["algorithm=grpo"]])
def test_a_config_that_is_changed_in_place_changes_no_other(line: list[str]):
    def composed(loader: ConfigLoader, *more: str) -> DictConfig:
        return compose(loader, "train", ["experiment=quickstart", *line, *more])

    loader = loader_of(CONFIGS)
    before, other = (OmegaConf.to_yaml(composed(loader, *more)) for more in ([], ["tags=[a]"]))
    for spoilt in (composed(loader), composed(loader_of(CONFIGS)), composed(loader)):
        OmegaConf.set_struct(spoilt, False)
        spoilt.algorithm.clipping = spoilt.task.largest = spoilt.hydra.job.name = "spoilt"
        spoilt.callbacks.clear()
    assert OmegaConf.to_yaml(composed(loader)) == OmegaConf.to_yaml(composed(loader_of(CONFIGS))) == before
    assert OmegaConf.to_yaml(composed(loader, "tags=[a]")) == other


def test_a_config_of_a_class_that_cannot_be_imported_is_copied_too():
    @dataclass
    class Here:
        numbers: list[int] = field(default_factory=lambda: [1])

    cfg = OmegaConf.structured(Here)
    copied = copies(cfg)
    cfg.numbers.append(2)
    copied().numbers.append(3)
    assert copied().numbers == [1] and OmegaConf.get_type(copied()) is Here


def test_what_is_read_once_in_a_config_is_read_again_in_the_next(tmp_path: Path):
    turns = count()
    OmegaConf.register_new_resolver("turn", lambda: next(turns), use_cache=True)
    write(tmp_path / "experiment/first.yaml", "seed: ${turn:}\ntags: ['${turn:}']")
    write(tmp_path / "experiment/mine.yaml", "defaults: [first, _self_]\nseed: 3")  # which looks at what it replaces
    try:
        read = [compose(loader_of(CONFIGS, str(tmp_path)), "train", ["experiment=mine"]).tags[0] for _ in range(3)]
    finally:
        OmegaConf.clear_resolver("turn")
    assert len({*read}) == 3


def test_a_job_of_a_sweep_is_as_by_itself():
    loader, line = loader_of(CONFIGS), ["experiment=quickstart"]
    master = loader.load_configuration("train", [*line, "seed=1,2"], RunMode.MULTIRUN)
    for job in (["seed=1"], ["seed=2"], ["seed=1", "algorithm=grpo"], ["seed=2", "algorithm.clipping.high=0.3"]):
        alone = compose(loader_of(CONFIGS), "train", [*line, *job])
        cfg = loader.load_sweep_config(master, [*line, *job])
        assert cfg.hydra.runtime.choices == alone.hydra.runtime.choices
        assert OmegaConf.to_yaml(cfg) == OmegaConf.to_yaml(alone)


@pytest.mark.parametrize("line", [[], ["algorithm=grpo", "algorithm/credit=[stapo]"], ["hydra/launcher=slurm"]])
@pytest.mark.parametrize("experiment", ["quickstart", "countdown_grid"])
def test_files_that_are_merged_at_once_are_as_hydra_merges_them(experiment, line, monkeypatch):
    def composed() -> str:
        return OmegaConf.to_yaml(compose(loader_of(CONFIGS), "train", [f"experiment={experiment}", *line]))

    at_once = composed()
    monkeypatch.setattr(ConfigLoader, "merge", ConfigLoaderImpl._compose_config_from_defaults_list)
    assert composed() == at_once
