"""What is not as it was when a checkpoint was written: settings, and what stands behind the names in them."""

import json
from collections.abc import Sequence
from hashlib import blake2b
from sys import maxsize
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from isentropic.config.build import leaves, plain
from isentropic.config.entry import rank
from isentropic.runs.status import versions

if TYPE_CHECKING:
    from isentropic.rollout.datamodule import RolloutDataModule
    from isentropic.task import Problem

NO_RESULT = ("hydra", "paths", "ckpt_path", "tags", "print_config", "logger", "callbacks")  # settings apart from it
STEPS = "rollout.steps"
READ, MOST = 64, 2**17  # problems that are encoded, and of a list those that are looked at
OF_TRANSFORMERS = ("transformers_version", "_name_or_path", "dtype", "torch_dtype", "use_cache", "_attn_implementation")
NEW = "of: "  # begins what older checkpoints do not say


def settings_of(cfg: DictConfig) -> dict[str, Any]:
    """By dotted key, what a result depends on."""
    found = {
        name: value for key in cfg if key not in NO_RESULT for name, value in leaves(plain(cfg, str(key)), str(key))
    }
    own = str(cfg.paths.output)  # of this folder alone
    return {name: value for name, value in found.items() if name != STEPS and own not in str(value)}


def contents_of(cfg: DictConfig, data: "RolloutDataModule") -> dict[str, Any]:
    """Of what files and packages hold that settings only name, and of how far a run goes, which schedules go by."""
    from transformers import AutoConfig

    model = AutoConfig.from_pretrained(cfg.policy.model.path).to_dict()
    problems = data.problems_of("train")
    endless = len(problems) == maxsize
    few = [problems[i] for i in (range(READ) if endless else range(0, len(problems), -(-len(problems) // READ)))]
    found = {
        "config.json of policy.model.path": {name: model[name] for name in sorted(model.keys() - {*OF_TRANSFORMERS})},
        "problems of the task": [None if endless else len(problems), ids_of(problems, few)],
        "prompts as tokens": [data.prompts.encode(problem) for problem in few],
    }
    told = {name: short(of) for name, of in found.items()}
    packages = {name: version for name, version in versions().items() if version}
    return {f"{NEW}{name}": value for name, value in ({STEPS: cfg.rollout.steps} | told | packages).items()}


def short(content: Any) -> str:
    return blake2b(json.dumps(content, default=str).encode(), digest_size=4).hexdigest()


def ids_of(problems: "Sequence[Problem]", few: "list[Problem]") -> list[Any]:
    """Of all problems of a list; of others, which may be made when they are asked for, of a few."""
    shown = problems if isinstance(problems, list | tuple) and len(problems) <= MOST else few
    return [[problem.id, str(problem.reference)] for problem in shown]


def say_differences(now: dict[str, Any], before: dict[str, Any]) -> None:
    """What is not as it was when the checkpoint was written holds from here on."""
    absent = object()
    names = sorted(now.keys() | before.keys()) if before else ()
    changed = [name for name in names if now.get(name, absent) != before.get(name, absent)]
    changed = [name for name in changed if not name.startswith(NEW) or (name in now and name in before)]
    if changed and rank() == 0:
        here = [f"{name}={now[name]}" if name in now else f"{name} is no more" for name in changed]
        there = [f"was {before[name]}" if name in before else "was not there" for name in changed]
        lines = [f"  {one}, {other}".replace(NEW, "") for one, other in zip(here, there, strict=True)]
        print("\n".join(["going on with other settings than the checkpoint's:", *lines]), flush=True)
