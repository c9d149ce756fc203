"""Every option of every group composes into a config whose parts have exactly these settings."""

from pathlib import Path

import pytest

from isentropic.compose import check_jobs, loader_of

CONFIGS = Path(__file__).parents[1] / "configs"
SEPARATE = {"hydra", "local"}


def options() -> list[str]:
    files = [f.relative_to(CONFIGS).with_suffix("") for f in sorted(CONFIGS.rglob("*.yaml"))]
    return [f"{f.parent}={f.name}" for f in files if f.parts[0] not in SEPARATE and len(f.parts) > 1]


def line(option: str) -> list[str]:
    """Groups whose parts stand side by side take lists."""
    group, _, name = option.partition("=")
    several = group in ("algorithm/credit", "algorithm/penalty", "rollout/curation", "evaluation")
    return [f"{group}=[{name}]" if several else option]


@pytest.mark.parametrize("option", options())
def test_every_option_composes(option: str):
    check_jobs(loader_of(CONFIGS), "train", line(option), sweep=False, parts=False)


def test_training_and_evaluation_have_parts_that_fit_their_settings():
    check_jobs(loader_of(CONFIGS), "train", [], sweep=False)
    check_jobs(loader_of(CONFIGS), "eval", ["ckpt_path=last.ckpt"], sweep=False)


@pytest.mark.parametrize("group", ["trainer", "trainer/cluster", "logger", "debug", "experiment", "algorithm", "task"])
def test_every_part_has_the_settings_of_its_file(group: str):
    for file in sorted((CONFIGS / group).glob("*.yaml")):
        check_jobs(loader_of(CONFIGS), "train", [f"{group}={file.stem}"], sweep=False)
