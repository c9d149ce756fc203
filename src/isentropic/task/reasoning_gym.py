"""Reasoning Gym: any of its hundred procedural tasks, by name, judged by its own scorer. arXiv:2505.24760"""

import difflib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from itertools import product
from typing import Any, get_args

from isentropic.task import Problem, Split, Status, Task, Verdict
from isentropic.task.answers import after_marker
from isentropic.task.endless import Endless, check_held_out, seed_of, split_of
from isentropic.task.integrals import refuted
from isentropic.task.judge_pool import JudgePool
from isentropic.task.prompts import check_template, fill
from isentropic.task.repairs import is_answer, repaired
from isentropic.tools.cage import STRICT, Cage
from isentropic.tools.guard import guard
from isentropic.tools.later import later

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
with later("cellpylib"):  # two of a hundred tasks make questions with it, and matplotlib comes with it
    from reasoning_gym.composite import DatasetSpec
    from reasoning_gym.dataset import ProceduralDataset
    from reasoning_gym.factory import DATASETS, create_dataset

SIZE = 2_000  # questions of one dataset: some tasks take long to set one up, one of them by making all questions
BLOCK = 100  # problems of each split made from one dataset, which leaves 20 questions to choose each from
DRAWS = 1_000  # more than enough to meet the rarest split; only tasks of very few questions use them up
LONGEST = 20_000  # characters of an answer
RESERVED = {"seed", "size"}

Options = tuple[tuple[str, str], ...]  # by name, as JSON: some are lists


@dataclass(frozen=True)
class ReasoningGym(Task):
    """References are the library's entries. Raises ValueError for names, options or splits that do not exist."""

    name: str  # of the task, such as chain_sum
    options: Mapping[str, Any]  # of the task itself, such as min_digits
    template: str  # the prompt, with {question} for the question
    marker: str  # what follows the last of these is the answer; <answer> ends at </answer>
    held_out: float  # share of the questions that training never sees, whatever the seed: half validation, half test
    seed: int  # of the training problems
    partial_credit: bool  # whether what is partly right earns what the library gives for it, or nothing
    workers: int  # processes that score answers: some scorers evaluate what the model wrote
    timeout: float  # CPU seconds one answer may take
    memory: float  # GiB one answer may take
    test_seed: int = 0  # of the test and the validation problems
    cage: Cage = STRICT  # what this machine must have to hold what a model wrote

    def __post_init__(self) -> None:
        check_template(self.template)
        check_held_out(self.held_out)
        check_name(self.name)
        check_options(self.name, self.options)
        for split in get_args(Split):
            self.problem(split, 0)
        assert self.judges

    def problems(self, split: Split) -> Sequence[Problem]:
        return Endless(partial(self.problem, split))

    def markers(self) -> list[str]:
        return [self.marker]

    def verify(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Verdict]:
        """The reward is the task's own score, repaired; an answer is right at the full score of 1.

        Where the known answer is one line, so is the model's: what follows is not part of it.
        """
        pairs = zip(problems, texts, strict=True)
        known = self.name, self.plain_options, self.marker, self.partial_credit
        return self.judges([(*known, problem.reference, text) for problem, text in pairs])

    @property
    def verifies_aside(self) -> bool:
        return True

    def notes(self) -> list[str]:
        return self.judges.notes

    def written(self, answer: str) -> str:
        return f"{self.marker} {answer}"

    def gold(self, problem: Problem) -> str | None:
        known = problem.reference["answer"]
        return known if isinstance(known, str) and is_answer(scorer_of(self.name, problem.reference), known) else None

    def close(self) -> None:
        self.judges.close()

    def problem(self, split: Split, index: int) -> Problem:
        """The first question of the split among those that seed and index lead to. Raises ValueError where none is."""
        block, first = divmod(index, BLOCK)
        seed = seed_of(split, self.seed, self.test_seed)
        for draw in range(DRAWS):
            part, step = divmod(draw, SIZE // BLOCK)
            digest = blake2b(f"{seed}/{block}/{part}".encode(), digest_size=4).digest()
            entry = dataset(self.name, self.plain_options, int.from_bytes(digest))[first + BLOCK * step]
            if split_of(entry["question"], self.held_out) == split:
                return Problem(fill(self.template, entry["question"]), entry)
        raise ValueError(
            f"task.name={self.name} with task.options={dict(self.options)} has too few questions: none of {DRAWS} fell "
            f"into the {split} split; choose options that allow more"
        )

    @cached_property
    def plain_options(self) -> Options:
        """Sorted, so that equal options share a data set."""
        return plain(self.options)

    @cached_property
    def judges(self) -> JudgePool:
        """Warmed by known answers, right and wrong ones, so that no answer makes a data set or loads a library."""
        entries = [self.problem("train", index).reference for index in range(2)]
        warm = [(f"{__name__}:warm", (self.name, self.plain_options, entries))]
        return JudgePool(f"{__name__}:judge", self.workers, self.timeout, self.memory, self.cage, warm)


def plain(options: Mapping[str, Any]) -> Options:
    """Sorted, each value as JSON: what can be a key of a cache."""
    return tuple(sorted((name, json.dumps(value)) for name, value in options.items()))


@lru_cache(maxsize=16)
def dataset(name: str, options: Options, seed: int) -> ProceduralDataset:
    """The generator of a task, kept for its scorer, as some take long to make."""
    given = {option: json.loads(value) for option, value in options}
    if name == "composite":
        given = {
            "datasets": [DatasetSpec(**({"weight": 1.0, "config": {}} | one)) for one in given.get("datasets", [])]
        }
    return create_dataset(name, **given, seed=seed, size=SIZE)


def judge(
    name: str, options: Options, marker: str, partial_credit: bool, entry: dict[str, Any], text: str
) -> tuple[float, bool, Status]:
    """Called in a caged process only."""
    dataset(name, options, 0)
    guard()
    return grade(name, options, marker, partial_credit, entry, text)


def grade(
    name: str, options: Options, marker: str, partial_credit: bool, entry: dict[str, Any], text: str
) -> tuple[float, bool, Status]:
    """Reward, right or not, and the word; without partial credit less than 1 is 0. Called in a judge's process only."""
    answer = answer_in(text, marker, entry)
    if not answer or len(answer) > LONGEST:
        return 0.0, False, "unparseable"
    scorer = scorer_of(name, entry)
    given = 0.0 if refuted(scorer, entry, answer) else score(name, options, entry, answer)
    reward = repaired(scorer, entry["answer"], answer, given, partial_credit)
    return reward, reward >= 1, "right" if reward >= 1 else "wrong"


def scorer_of(name: str, entry: Mapping[str, Any]) -> str:
    """The task whose problem it is: itself, or one of a mixture."""
    return entry["metadata"]["source_dataset"] if name == "composite" else name


def warm(name: str, options: Options, entries: Sequence[dict[str, Any]]) -> None:
    """Of the library's own entries: each known answer beside each."""
    for entry, other in product(entries, entries):
        with suppress(Exception):
            grade(name, options, "", False, entry, str(other["answer"]))


def score(name: str, options: Options, entry: dict[str, Any], answer: str) -> float:
    """The library's own scorer, 0 to 1."""
    return float(dataset(name, options, 0).score_answer(answer, entry))


def answer_in(text: str, marker: str, entry: Mapping[str, Any]) -> str:
    """After the marker; the first line only where the known answer is one."""
    answer = after_marker(text, marker) or ""
    known = entry["answer"]  # None where many answers are right and none is given
    one_line = isinstance(known, str) and "\n" not in known.strip()
    return answer.partition("\n")[0].strip() if one_line else answer


def check_name(name: str) -> None:
    """Raises ValueError for a task that the library does not have, with the closest."""
    if name not in DATASETS:
        closest = difflib.get_close_matches(name, DATASETS, n=3, cutoff=0.4)
        raise ValueError(
            f"task.name={name} is not a reasoning_gym task; the closest are {', '.join(closest) or 'far off'}, and all "
            f'{len(DATASETS)} are printed by python -c "import reasoning_gym.factory as f; print(*sorted(f.DATASETS))"'
        )


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Raises ValueError for options that a task does not have or refuses."""
    known = [field.name for field in fields(DATASETS[name][1]) if field.name not in RESERVED]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise ValueError(f"task.options has no {', '.join(unknown)} for {name}; there are {', '.join(known)}")
    try:
        dataset(name, plain(options), 0)
    except (AssertionError, ValueError, TypeError) as error:
        raise ValueError(f"task.options={dict(options)} do not suit {name}: {error}") from error
