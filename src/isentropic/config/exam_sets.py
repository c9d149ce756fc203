"""The sets of an evaluation, from its config: tasks and files, and what is asked of them."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from isentropic.config.build import BadInput, bad_input, build, plain

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from isentropic.evaluation.protocol import Protocol
    from isentropic.evaluation.questions import AskedSet, Question
    from isentropic.task import Task

Sets = dict[str, "list[Question]"]  # by name, with the number where a set has more


def tasks_of(cfg: DictConfig, stack: ExitStack) -> "dict[str, Task]":
    """Those of sets, and the rule."""
    found: dict[str, Task] = {}
    for name in cfg.tasks:
        found[str(name)] = build(cfg, f"tasks.{name}")
        stack.callback(found[str(name)].close)
    found["rule"] = build(cfg, "rule")
    stack.callback(found["rule"].close)
    return found


def questions_of(cfg: DictConfig, protocol: "Protocol", tasks: "Mapping[str, Task]") -> Sets:
    from isentropic.evaluation.protocol import parsed
    from isentropic.evaluation.questions import of_rows, of_task

    found: Sets = {}
    failed: dict[str, str] = {}
    names = [name for exam in protocol.chosen().values() for name in exam.sets]
    for name in names:
        base = parsed(name)[0]
        try:
            with bad_input():
                if base in tasks:
                    whole, questions = of_task(name, tasks[base], cfg.training.split)
                else:
                    whole, questions = of_rows(name, build(cfg, f"sets.{base}"), protocol.template)
        except BadInput as error:
            failed[name] = str(error)
        else:
            found[whole] = questions
    if failed:
        raise BadInput(failure(failed, [parsed(name)[0] for name in names if name not in failed]))
    return found


def failure(failed: Mapping[str, str], others: Sequence[str]) -> str:
    """One sentence for all sets that cannot be read, with what would ask the others."""
    first = next(iter(failed.values()))
    said = first if len(failed) == 1 else f"{', '.join(failed)} cannot be read, the first as {first}"
    left = "leaves it out" if len(failed) == 1 else "leaves them out"
    return f"{said}; 'evaluation.protocol.only=[{','.join(others)}]' {left}" if others else said


def asked_sets(
    cfg: DictConfig, protocol: "Protocol", sets: Sets, tokenizer: "PreTrainedTokenizerBase"
) -> "list[AskedSet]":
    from isentropic.evaluation.protocol import parsed
    from isentropic.evaluation.questions import asked_set
    from isentropic.rollout.prompts import PromptEncoder, examples_of

    own = cfg.training if protocol.name == "own" else OmegaConf.create({"examples": None, "template_arguments": None})
    arguments = plain(own, "template_arguments") or {}
    prompts = PromptEncoder(tokenizer, protocol.chat, protocol.system, examples_of(plain(own, "examples")), arguments)
    exams = {parsed(name)[0]: exam for exam in protocol.chosen().values() for name in exam.sets}
    return [
        asked_set(name, questions, exams[parsed(name)[0]], prompts, prompts.answer_end)
        for name, questions in sets.items()
    ]


def data_of(cfg: DictConfig, asked: "Sequence[AskedSet]") -> dict[str, str]:
    """Of each set the hash of its file, or where else it is from."""
    from isentropic.evaluation.versions import data_hash

    found: dict[str, str] = {}
    for one in asked:
        part = cfg.sets.get(one.base, {})
        places = [Path(str(part[key])).expanduser() for key in ("path", "file") if part.get(key)]
        file = next((place for place in places if place.exists()), None)
        made = "made by its task" if one.base in cfg.tasks else f"{part.get('path')} of the hub"
        found[one.name] = data_hash(file) if file else made
    return found
