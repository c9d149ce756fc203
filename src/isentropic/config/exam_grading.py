"""Who judges the answers of an evaluation, and what is made of the verdicts: scores, contamination, the card."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from isentropic.config.build import BadInput, bad_input
from isentropic.config.graders import graders_of as made_of
from isentropic.config.judged import key_of, run_of
from isentropic.config.trained import trained_on

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from isentropic.evaluation.grader import Grader
    from isentropic.evaluation.protocol import Protocol
    from isentropic.evaluation.questions import AskedSet
    from isentropic.task import Task


def is_grading(argument: str) -> bool:
    """graders.stare.closed=true"""
    return key_of(argument).startswith("graders.")


def graders_of(
    protocol: "Protocol",
    asked: "Sequence[AskedSet]",
    tasks: "Mapping[str, Task]",
    overrides: Sequence[str],
    stack: ExitStack,
) -> "dict[str, dict[str, Grader]]":
    """By set: a task's own problems are judged by the task, others by the protocol's graders."""
    from isentropic.evaluation.by_task import ByTask
    from isentropic.task.environment import Environment

    found: dict[str, dict[str, Grader]] = {}
    of_protocol: dict[str, Grader] = {}
    for one in asked:
        if one.base in tasks:
            if isinstance(tasks[one.base], Environment):
                raise BadInput(
                    f"{one.name} is answered in several turns, which evaluations by a protocol do not have; judge a "
                    "checkpoint by ckpt_path=..., which plays them"
                )
            problems = {question.text: question.problem for question in one.questions}
            found[one.name] = {"task": ByTask("task", tasks[one.base], problems)}
            continue
        if not of_protocol:
            named = [name for name in protocol.graders if name != "task"]
            made = iter(made_of(named, overrides).values() if named else ())
            graders = [ByTask("task", tasks["rule"]) if name == "task" else next(made) for name in protocol.graders]
            of_protocol = {grader.name: grader for grader in graders}
            for grader in graders:
                stack.callback(grader.close)
        found[one.name] = of_protocol
    return found


def check_markers(tokenizer: "PreTrainedTokenizerBase", graders: "Mapping[str, Mapping[str, Grader]]") -> None:
    """Raises BadInput where what a grader looks for is taken out of answers before they are judged."""
    from isentropic.rollout.prompts import check_written

    with bad_input():
        for name, grader in {name: one for of_set in graders.values() for name, one in of_set.items()}.items():
            check_written(tokenizer, f"grader {name}", grader.markers())


def checked(asked: "Sequence[AskedSet]", graders: "Mapping[str, Mapping[str, Grader]]", allowed: bool) -> list[str]:
    """What is to be said of the sets. Raises BadInput for golds that the deciding grader does not call right."""
    from isentropic.evaluation.by_task import ByTask
    from isentropic.evaluation.set_checks import check_golds, repeated

    said = repeated([problem for one in asked for problem in one.asked])
    for one in asked:
        first = next(iter(graders[one.name].values()))
        if not (isinstance(first, ByTask) and first.problems):  # a task knows its own
            with bad_input():
                said += check_golds(one.asked, first, allowed)
    return said


def told(folder: Path, cfg: DictConfig, arguments: Sequence[str]) -> list[str]:
    """Scores, what training has seen of the sets where that is known, and the card; a line for each."""
    from isentropic.evaluation.agreement import write as write_agreement
    from isentropic.evaluation.answers import read_answers, read_problems
    from isentropic.evaluation.card_page import write_card
    from isentropic.evaluation.contamination import write_contamination
    from isentropic.evaluation.scores import write_scores
    from isentropic.evaluation.sets import read

    found = write_scores(folder)
    lines = [f"{name}/avg@{one['k']}: {one['avg']['value']:.4f}" for name, one in found["sets"].items()]
    answers, problems = read_answers(folder), read_problems(folder)
    if len(answers[0].verdicts) > 1:
        lines += [pair.sentence() for pair in write_agreement(folder, answers, problems)]
    subject = Path(cfg.subject)
    if run := run_of(subject) if subject.exists() else None:
        try:
            names, prompts = trained_on(run)
            if prompts:
                write_contamination(folder, prompts, names, read(folder))
        except BadInput as error:
            lines.append(f"what the run has learnt from cannot be read, so nothing is said of contamination: {error}")
    with bad_input("against"):
        card = write_card(folder, shlex.join(["isentropic", "eval", *arguments]), cfg.against and Path(cfg.against))
    if card["against"] and card["against"]["refused"]:
        lines.append(f"against: {card['against']['refused']}")
    return [*lines, *found["warnings"], f"evaluation: {folder}; its card: {folder / 'card.html'}"]
