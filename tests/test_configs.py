"""Every option of every group composes into a config whose parts have exactly these settings."""

from pathlib import Path

import pytest

from isentropic.config.compose import check_jobs, loader_of

CONFIGS = Path(__file__).parents[1] / "configs"
# Parts stand next to GRPO's, as a recipe may set what another part does not have; sets are of one task.
FIRST = {"algorithm/": "algorithm=grpo", "task/set": "task=math"}
# Parts that stand side by side.
LISTS = "algorithm/credit", "algorithm/penalty", "rollout/curation", "evaluation", "task/set"
PLAN = ("card",)  # groups of plan.yaml alone


def options(*groups: str) -> list[str]:
    """Of these groups, else of all that training has."""
    files = [f.relative_to(CONFIGS).with_suffix("") for f in sorted(CONFIGS.rglob("*.yaml"))]
    parents = [(f.parent.as_posix(), f.name) for f in files if f.parts[0] not in ("hydra", "local")]
    chosen = [(group, name) for group, name in parents if group != "."]
    chosen = [(group, name) for group, name in chosen if (group in groups if groups else group not in PLAN)]
    within = {"task/set": "task/set@task.test"}
    return [f"{within.get(group, group)}={f'[{name}]' if group in LISTS else name}" for group, name in chosen]


@pytest.mark.parametrize("option", ["seed=1", *options()])
def test_every_option_of_training_fits(option: str):
    first = [choice for group, choice in FIRST.items() if option.startswith(group)]
    check_jobs(loader_of(CONFIGS), "train", [*first, option, "policy.model.path=somewhere"], sweep=False)


@pytest.mark.parametrize("option", options(*PLAN))
def test_every_option_of_a_plan_fits(option: str):
    check_jobs(loader_of(CONFIGS), "plan", [option], sweep=False)


@pytest.mark.parametrize(
    "option", ["", "sampler=transformers", "trainer=fsdp", "algorithm=stare", "benchmark.model=7b"]
)
def test_every_kind_of_benchmark_fits(option: str):
    check_jobs(loader_of(CONFIGS), "benchmark", [option] if option else [], sweep=False)


def test_evaluation_fits():
    check_jobs(loader_of(CONFIGS), "eval", ["ckpt_path=last.ckpt"], sweep=False)
