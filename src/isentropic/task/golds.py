"""Can the answers of a data set be earned? Each is judged as if a model had written it in a box."""

import warnings
from collections.abc import Mapping

from isentropic.task import Problem, Split, Task
from isentropic.task.audit import unearnable

SHOWN = 5


def without_bad_answers(task: Task, splits: Mapping[Split, list[Problem]], bad_answers: str) -> None:
    """Takes out of training, in place, what is not judged right itself, and warns; test problems stay, with a warning.

    Raises ValueError where bad answers are refused, or none is left to learn from.
    """
    for split, problems in splits.items():
        found = unearnable(task, problems)
        if not found:
            continue
        bad = {id(problem) for problem in found}
        some = ", ".join(repr(problem.reference)[:40] for problem in found[:SHOWN])
        sentence = (
            f"{len(found)} of {len(problems)} {split} answers are not judged right even when written as they stand "
            f"({some}{', ...' if len(found) > SHOWN else ''})"
        )
        if bad_answers == "refuse":
            raise ValueError(f"{sentence}; mend them, or leave them out with task.bad_answers=drop")
        if split == "test":
            warnings.warn(f"{sentence}; no model can earn them", stacklevel=2)
            continue
        problems[:] = [problem for problem in problems if id(problem) not in bad]
        warnings.warn(f"{sentence}; they are left out", stacklevel=2)
        if not problems and split == "train":
            raise ValueError(f"{sentence}, and none is left to learn from; task.answer or its marker is not what it is")
