"""What does a task pay for that no one worked out? `isentropic audit-task task=gsm8k task.train=... task.test=...`

Constant answers on the first problems, golds against themselves, duplicates, questions that splits share, lengths
against the context, and one prompt as the policy reads it. Prints a page in Markdown and keeps it as audit.md and
audit.json in the run's folder. docs/audit.md has the findings for every task of reasoning_gym.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from isentropic.config.build import BadInput
from isentropic.config.entry import main
from isentropic.runs.files import write_whole
from isentropic.train import parts

if TYPE_CHECKING:
    from isentropic.rollout.datamodule import RolloutDataModule
    from isentropic.task import Problem

SHOWN = 10  # constants
MEASURED = 2_000  # problems of a split whose lengths and golds are looked at
SPLITS = ("train", "validation", "test")


@main("audit_task")
def audit_task(cfg: DictConfig) -> None:
    """Raises BadInput for a split without problems."""
    with parts(cfg) as (_, _, data):
        found = findings(cfg, data)
        text = page(found, data)
        write_whole(Path(cfg.paths.output) / "audit.json", json.dumps(found, indent=1, default=str) + "\n")
        write_whole(Path(cfg.paths.output) / "audit.md", text)
        print(text, flush=True)
        data.reward.close()


def findings(cfg: DictConfig, data: "RolloutDataModule") -> dict[str, Any]:
    from isentropic.task.audit import audit, warning

    splits = {split: first_of(data, split, MEASURED) for split in SPLITS}
    tried = splits[str(cfg.split)][: int(cfg.problems)]
    if not tried:
        there = ", ".join(split for split, problems in splits.items() if problems)
        raise BadInput(f"split={cfg.split} has no problem; the splits with some are {there}")
    constant = audit(data.task, tried)
    return {
        "task": str(cfg.task._target_),
        "split": str(cfg.split),
        "constants": [asdict(earning) for earning in constant.earnings[:SHOWN]],
        "warning": warning(constant),
        "problems": constant.problems,
        "without_gold": constant.unknown,
        "splits": {name: of_split(data, problems, cfg) for name, problems in splits.items() if problems},
        "overlap": overlaps(splits),
    }


def first_of(data: "RolloutDataModule", split: Any, most: int) -> "list[Problem]":
    try:
        problems = data.task.problems(split)
    except ValueError:  # a split that was not asked for
        return []
    return list(islice((problems[i] for i in range(min(len(problems), most))), most))


def of_split(data: "RolloutDataModule", problems: "Sequence[Problem]", cfg: DictConfig) -> dict[str, Any]:
    from isentropic.task.audit import unearnable

    lengths = sorted(len(data.prompts.encode(problem)) for problem in problems)
    room = int(cfg.sampler.max_model_len) - data.decoding.max_tokens
    lost, known = unearnable(data.task, problems), sum(data.task.gold(problem) is not None for problem in problems)
    return {
        "problems": len(problems),
        "duplicates": sum(count - 1 for count in Counter(problem.prompt for problem in problems).values()),
        "tokens": {"median": lengths[len(lengths) // 2], "longest": lengths[-1], "room": room},
        "too_long": sum(length > room for length in lengths),
        "unearnable": [str(problem.reference)[:80] for problem in lost[:SHOWN]],
        "golds_that_can_be_earned": 1 - len(lost) / known if known else None,
    }


def overlaps(splits: "dict[str, list[Problem]]") -> dict[str, dict[str, int]]:
    """Questions of training that a test asks too, whatever their spaces and signs, also within an instruction."""
    from isentropic.task.overlap import Near, Overlap

    tests = {name: [problem.prompt for problem in splits[name]] for name in SPLITS[1:] if splits[name]}
    return {
        name: {
            kind: sum(problem.prompt in one for problem in splits["train"])
            for kind, one in (("same", Overlap(prompts)), ("near", Near(prompts)))
        }
        for name, prompts in tests.items()
    }


def page(found: dict[str, Any], data: "RolloutDataModule") -> str:
    lines = [f"# Audit of {found['task']}", "", found["warning"] or "No constant earns much.", ""]
    lines += [f"Constants, on {found['problems']} {found['split']} problems:", "", "| answer | mean reward | right |"]
    lines += ["| --- | --- | --- |"]
    for one in found["constants"]:
        lines.append(f"| {cell(repr(one['answer']))} | {one['reward']:.3f} | {one['correct']:.0%} |")
    heads = ("split", "problems looked at", "duplicates", "tokens: median, longest, room", "too long", "golds earned")
    lines += ["", f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for name, one in found["splits"].items():
        tokens = ", ".join(map(str, one["tokens"].values()))
        share = one["golds_that_can_be_earned"]
        earned = "none known" if share is None else f"{share:.1%}"
        lines.append(f"| {name} | {one['problems']} | {one['duplicates']} | {tokens} | {one['too_long']} | {earned} |")
        lines += [f"| | not earned: {cell(', '.join(one['unearnable']))} |"] if one["unearnable"] else []
    lines += [""]
    for name, shared in found["overlap"].items():
        lines.append(
            f"{shared['same']} training questions are in {name} too, and {shared['near']} are near one of its."
        )
    marks = ", ".join(map(repr, data.task.markers())) or "nothing"
    lines += ["", f"The judge looks for {marks} in an answer.", "", "```", data.example().rstrip(), "```", ""]
    return "\n".join(lines)


def cell(text: str) -> str:
    """What data or a model brings stays within its cell, and text."""
    return "`" + " ".join(text.split())[:200].replace("|", "\\|").replace("`", "'") + "`"


if __name__ == "__main__":
    audit_task()
