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
SPLIT_HEADS = ("split", "problems looked at", "duplicates", "tokens: median, longest, room", "too long", "golds earned")


@main("audit_task")
def audit_task(cfg: DictConfig) -> None:
    """Raises BadInput for a split without problems."""
    with parts(cfg, all_fit=False) as (_, _, data):
        found = findings(cfg, data)
        text = page(found, data)
        write_whole(Path(cfg.paths.output) / "audit.json", json.dumps(found, indent=1, default=str) + "\n")
        write_whole(Path(cfg.paths.output) / "audit.md", text)
        print(text, flush=True)
        data.reward.close()


def findings(cfg: DictConfig, data: "RolloutDataModule") -> dict[str, Any]:
    from isentropic.task.audit import audit, warning

    splits = {split: first_of(data, split, MEASURED) for split in SPLITS}
    room = int(cfg.sampler.max_model_len) - data.decoding.max_tokens
    lengths = {split: [len(data.prompts.encode(problem)) for problem in splits[split]] for split in SPLITS}
    fitting = {
        name: [p for p, long in zip(splits[name], lengths[name], strict=True) if long <= room] for name in SPLITS
    }
    tried = fitting[str(cfg.split)][: int(cfg.problems)]
    if not tried and splits[str(cfg.split)]:
        raise BadInput(
            f"no prompt of split={cfg.split} fits: with rollout.decoding.max_tokens={data.decoding.max_tokens}, "
            f"sampler.max_model_len={cfg.sampler.max_model_len} leaves {room} tokens; raise that"
        )
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
        "splits": {
            name: of_split(data, problems, fitting[name], lengths[name], room)
            for name, problems in splits.items()
            if problems
        },
        "overlap": overlaps(splits),
    }


def first_of(data: "RolloutDataModule", split: Any, most: int) -> "list[Problem]":
    try:
        problems = data.task.problems(split)
    except ValueError:  # a split that was not asked for
        return []
    return list(islice((problems[i] for i in range(min(len(problems), most))), most))


def of_split(
    data: "RolloutDataModule",
    problems: "Sequence[Problem]",
    fitting: "Sequence[Problem]",
    lengths: Sequence[int],
    room: int,
) -> dict[str, Any]:
    """Golds are tried of the problems that fit, which are all that a run could ask."""
    from isentropic.task.audit import unearnable

    lengths = sorted(lengths)
    lost, known = unearnable(data.task, fitting), sum(data.task.gold(problem) is not None for problem in fitting)
    return {
        "problems": len(problems),
        "duplicates": sum(count - 1 for count in Counter(problem.prompt for problem in problems).values()),
        "tokens": {"median": lengths[len(lengths) // 2], "longest": lengths[-1], "room": room},
        "too_long": len(problems) - len(fitting),
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
    lines += [f"Constants, on {found['problems']} {found['split']} problems:", ""]
    constants = [
        (cell(repr(one["answer"])), f"{one['reward']:.3f}", f"{one['correct']:.0%}") for one in found["constants"]
    ]
    lines += [*aligned([("answer", "mean reward", "right"), *constants]), ""]
    lines += aligned([SPLIT_HEADS, *(row(name, one) for name, one in found["splits"].items())])
    lost = {name: one["unearnable"] for name, one in found["splits"].items() if one["unearnable"]}
    long = {name: one for name, one in found["splits"].items() if one["too_long"]}
    lines += [line for name, one in long.items() for line in ("", without(name, one))]
    lines += [line for name, golds in lost.items() for line in ("", f"Not earned in {name}: {cell(', '.join(golds))}")]
    lines += [""]
    for name, shared in found["overlap"].items():
        lines.append(
            f"{shared['same']} training questions are in {name} too, and {shared['near']} are near one of its."
        )
    marks = ", ".join(map(repr, data.task.markers())) or "nothing"
    lines += ["", f"The judge looks for {marks} in an answer.", "", "```", data.example().rstrip(), "```", ""]
    return "\n".join(lines)


def row(name: str, one: dict[str, Any]) -> Sequence[str]:
    share = one["golds_that_can_be_earned"]
    tokens, earned = ", ".join(map(str, one["tokens"].values())), "none known" if share is None else f"{share:.1%}"
    return name, str(one["problems"]), str(one["duplicates"]), tokens, str(one["too_long"]), earned


def without(name: str, one: dict[str, Any]) -> str:
    """What is said of prompts that leave no room for an answer."""
    longest, room = one["tokens"]["longest"], one["tokens"]["room"]
    return (
        f"Left out of {name}: {one['too_long']} of {one['problems']} prompts, the longest of {longest} tokens, where "
        f"{room} leave room for an answer; a run would refuse them."
    )


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of Markdown that is one on a screen too: the first row is its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first, *others = [[f"{text:<{width}}" for text, width in zip(one, widths, strict=True)] for one in rows]
    return [f"| {' | '.join(one)} |" for one in (first, ["-" * width for width in widths], *others)]


def cell(text: str) -> str:
    """What data or a model brings stays within its cell, and text."""
    return "`" + " ".join(text.split())[:200].replace("|", "\\|").replace("`", "'") + "`"


if __name__ == "__main__":
    audit_task()
