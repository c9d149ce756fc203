"""Graders by their names, and `isentropic eval regrade=FOLDER grader=NAME`, which needs neither a model nor a card."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from isentropic.config.build import BadInput, bad_input, build, by_source, check, plain
from isentropic.config.compose import CONFIGS, compose, loader_of
from isentropic.runs.files import check_evaluation

if TYPE_CHECKING:
    from isentropic.evaluation.grader import Grader

MODEL = "model:"  # and a folder or a URL
GROUP = "evaluation/grader"


def graders_of(names: Sequence[str], overrides: Sequence[str] = ()) -> "dict[str, Grader]":
    """By name, in their order, built from configs/evaluation/grader; `overrides` are like graders.stare.closed=true.

    Raises BadInput for a name that does not exist, and for settings that cannot be.
    """
    if not names or len(set(names)) < len(names):
        raise BadInput(f"grader=[{','.join(names)}] must name one grader or several different ones")
    models = [name.removeprefix(MODEL) for name in names if name.startswith(MODEL)]
    if len(models) > 1:
        raise BadInput(f"grader=[{','.join(names)}] has {len(models)} models; give one at a time")
    options = ["model" if name.startswith(MODEL) else name for name in names]
    chosen = [f"{GROUP}@graders=[{','.join(options)}]", *(f"graders.model.model={model!r}" for model in models)]
    cfg = compose(loader_of(CONFIGS), "regrade", [*chosen, *overrides])
    check(plain(cfg, "graders"), "graders", by_source)
    made = build(cfg, "graders")
    return {made[option].name: made[option] for option in options}


def regrades(arguments: Sequence[str]) -> bool:
    return any(one.startswith("regrade=") for one in arguments)


def regrade(arguments: Sequence[str]) -> None:
    """What the command line asks for. Raises SystemExit(2), with one sentence, for what cannot be."""
    try:
        with bad_input():
            print("\n".join(regraded(arguments)), flush=True)
    except (BadInput, RuntimeError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        raise SystemExit(2) from None


def regraded(arguments: Sequence[str]) -> list[str]:
    """A line for each new score and each pair of graders."""
    given = {key: value for key, _, value in (one.partition("=") for one in arguments)}
    folder, names = Path(given.pop("regrade").strip("'\"")).expanduser(), given.pop("grader", "")
    for key in given:
        if not key.startswith("graders."):
            raise BadInput(f"{key} does not exist: regrade has the keys regrade, grader and graders.NAME.SETTING")
    named = [one.strip(" '\"") for one in names.strip("[]'\" ").split(",") if one.strip(" '\"")]
    if not named:
        raise BadInput(
            "grader has no value; name one, as in grader=boxed_string, or several, as in grader=[integer,stare]"
        )
    check_evaluation(folder)
    graders = graders_of(named, [f"{key}={value}" for key, value in given.items()])
    from isentropic.evaluation.regrade import regrade

    try:
        scores, agreed = regrade(folder, list(graders.values()))
    finally:
        for grader in graders.values():
            grader.close()
    lines = [
        f"{name}/avg by {grader}: {score['avg']['value']:.4f}"
        for grader, one in scores.items()
        for name, score in one.items()
    ]
    return [*lines, *(pair.sentence() for pair in agreed), f"regraded: {folder}"]
