"""Every option of every group composes into a config whose parts have exactly these settings."""

from itertools import zip_longest
from pathlib import Path

import pytest

from isentropic.config.compose import check_jobs, loader_of
from isentropic.config.graders import graders_of

CONFIGS = Path(__file__).parents[1] / "configs"
LOADER = loader_of(CONFIGS)
# Parts that stand side by side.
LISTS = "algorithm/credit", "algorithm/penalty", "rollout/curation", "evaluation", "reward", "task/set"
NEEDED = {  # what has no value that could stand in a file
    "reward=[trl]": "reward.trl.functions=[os.path.join]",
    "reward=[verl]": "reward.verl.function=os.path.join",
    "task=data": "task.path=mine.jsonl",
    "task=gymnasium": "task.environment=doors.Doors",
    "task=skyrl": "task={environment: sums.Sums, task: {path: mine.jsonl}}",
    "task=trl": "task={environment: bank.Bank, task: {path: mine.jsonl}}",
}
PLAN = ("card",)  # groups of plan.yaml alone
JUDGE = ("evaluation/protocol", "evaluation/rule", "evaluation/grader")  # and of judge.yaml


def options(*groups: str) -> list[str]:
    """Of these groups, else of all that training has."""
    files = [f.relative_to(CONFIGS).with_suffix("") for f in sorted(CONFIGS.rglob("*.yaml"))]
    parents = [(f.parent.as_posix(), f.name) for f in files if f.parts[0] not in ("hydra", "local")]
    chosen = [(group, name) for group, name in parents if group != "."]
    chosen = [(group, name) for group, name in chosen if (group in groups if groups else group not in (*PLAN, *JUDGE))]
    within = {"task/set": "task/set@task.test"}
    return [f"{within.get(group, group)}={f'[{name}]' if group in LISTS else name}" for group, name in chosen]


def whole(group: str, options: list[str]) -> list[str]:
    """Parts that stand side by side do so in one job."""
    names = [option.partition("=")[2].strip("[]") for option in options]
    return [f"{group}=[{','.join(names)}]"] if group.partition("@")[0] in LISTS else options


def jobs() -> list[list[str]]:
    """As few as hold every option once: one of each group together, but for what chooses by itself.

    Parts stand next to GRPO's, as a recipe may set what another part does not have; sets are of one task.
    """
    groups: dict[str, list[str]] = {}
    for option in options():
        groups.setdefault(option.partition("=")[0], []).append(option)
    alone = [[option] for group in ("experiment", "debug") for option in groups.pop(group)]
    axes = {group: whole(group, of_group) for group, of_group in groups.items()}
    within = [
        axes.pop(group) for group in groups if "/" in group and group.startswith(("algorithm", "task", "trainer"))
    ]
    first = ["algorithm=grpo", "task=math", "trainer=cpu"]
    found = [[*first, *filter(None, job)] for job in zip_longest(*within)]
    found += [[*filter(None, job)] for job in zip_longest(*axes.values())]
    return [[*job, *(more for line in job for more in needed(line))] for job in alone + found]


def needed(line: str) -> list[str]:
    group, _, names = line.partition("=")
    single = [f"{group}=[{name}]" for name in names.strip("[]").split(",")] if group in LISTS else [line]
    return [NEEDED[one] for one in single if one in NEEDED]


def marked(job: list[str]) -> object:
    """Experiments one by one, and recipes that are built in tests/algorithm too; papers' are in test_experiments.py."""
    slow = len(job) == 1 and job[0].startswith(("experiment=", "algorithm=")) and job[0] != "experiment=quickstart"
    return pytest.param(job, marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize("job", [marked(job) for job in jobs()], ids=" ".join)
def test_every_option_of_training_fits(job: list[str]):
    check_jobs(LOADER, "train", [*job, "policy.model.path=somewhere"], sweep=False)


def test_every_option_is_in_one_of_the_jobs():
    """But for what would take its place within the same job."""
    lines = [line for job in jobs() for line in job]
    chosen = {
        f"{line.partition('=')[0]}={name}" for line in lines for name in line.partition("=")[2].strip("[]").split(",")
    }
    assert [option for option in options() if option.replace("[", "").replace("]", "") not in chosen] == []


@pytest.mark.parametrize("option", options(*PLAN))
def test_every_option_of_a_plan_fits(option: str):
    check_jobs(LOADER, "plan", [option], sweep=False)


@pytest.mark.parametrize("option", options(*JUDGE[:1]))
def test_every_option_of_an_evaluation_by_a_protocol_fits(option: str):
    given = [option, "subject=model", "policy.model.path=model", "training.template='{question}'"]
    given += ["training.max_tokens=8", "training.sets=[aime24]", "training.count=1"]
    given += ["training.decoding={_target_: isentropic.sampler.Decoding}"] if option.endswith("=own") else []
    check_jobs(LOADER, "judge", given, sweep=False)


@pytest.mark.parametrize("option", options("evaluation/grader"))
def test_every_grader_can_be_built_from_its_own_file(option: str):
    name = option.partition("=")[2].strip("[]")
    (grader,) = graders_of(["model:http://localhost:9" if name == "model" else name]).values()
    assert grader.name.startswith(name)
    grader.close()


@pytest.mark.parametrize(
    "option", ["", "sampler=transformers", "trainer=fsdp", "algorithm=stare", "benchmark.model=7b"]
)
def test_every_kind_of_benchmark_fits(option: str):
    check_jobs(LOADER, "benchmark", [option] if option else [], sweep=False)


def test_evaluation_fits():
    check_jobs(LOADER, "eval", ["ckpt_path=last.ckpt"], sweep=False)
