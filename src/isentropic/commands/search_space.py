"""Overrides with ranges in them: what is fixed, what is searched, and what was found.

`key=low..high` is searched evenly, `key=log:low..high` by orders of magnitude, over whole numbers where both ends are.
`key=a,b,c` are choices. Everything else is an override of Hydra's, also what only looks like choices: `'key=[a,b]'`.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isentropic.runs.metrics import metrics_files, read_metrics

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.trial import FrozenTrial

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
RANGE = re.compile(rf"(?P<key>[^=]+)=(?P<log>log:)?(?P<low>{NUMBER})\.\.(?P<high>{NUMBER})", re.I)
CHOICES = re.compile(r"(?P<key>[^=]+)=(?P<values>[^\[{(\"',]+(?:,[^\[{(\"',]+)+)")
STATES = {"COMPLETE": "done", "PRUNED": "stopped"}


@dataclass(frozen=True)
class Range:
    """Raises ValueError for one that does not rise, or cannot be logarithmic."""

    key: str
    low: float
    high: float
    whole: bool
    log: bool

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"{self.key}={self.low:g}..{self.high:g} is no range; the first number must be lower")
        if self.log and self.low <= 0:
            raise ValueError(f"{self.key}=log:{self.low:g}..{self.high:g} must start above 0")

    def draw(self, trial: "Trial") -> None:
        if self.whole:
            trial.suggest_int(self.key, int(self.low), int(self.high), log=self.log)
        else:
            trial.suggest_float(self.key, self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Choices:
    key: str
    values: list[str]

    def draw(self, trial: "Trial") -> None:
        trial.suggest_categorical(self.key, self.values)


def parse(overrides: Sequence[str]) -> tuple[list[str], list[Range | Choices]]:
    """What is fixed, and what is searched. Raises ValueError where nothing is."""
    fixed: list[str] = []
    spaces: list[Range | Choices] = []
    for one in overrides:
        if match := RANGE.fullmatch(one):
            ends = match["low"], match["high"]
            whole = all(re.fullmatch(r"[-+]?\d+", end) for end in ends)
            spaces.append(Range(match["key"], *map(float, ends), whole=whole, log=bool(match["log"])))
        elif match := CHOICES.fullmatch(one):
            spaces.append(Choices(match["key"], match["values"].split(",")))
        else:
            fixed.append(one)
    if not spaces:
        raise ValueError("nothing is searched; give at least one key=low..high, key=log:low..high or key=a,b")
    return fixed, spaces


def given(params: Mapping[str, Any]) -> list[str]:
    """As overrides, of four digits."""
    return [f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}" for key, value in params.items()]


def values_of(folder: Path, metric: str) -> list[tuple[int, float]]:
    """Steps and values, of whole lines only: the file may be growing."""
    series = read_metrics(metrics_files(folder), re.escape(metric)).series.get(metric)
    return [] if series is None else list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def table(trials: Iterable["FrozenTrial"], fixed: Sequence[str], keys: Sequence[str], metric: str) -> str:
    """Markdown: every trial, the best first, and the command of the best."""
    drawn = [trial for trial in trials if set(keys) <= trial.params.keys()]
    drawn.sort(key=lambda trial: (trial.state.name not in STATES, trial.state.name, -(trial.value or 0.0)))
    rows = [["trial", *(key.rpartition(".")[2] for key in keys), metric, "rollouts", "state"]]
    rows.append(["---"] * len(rows[0]))
    for trial in drawn:
        shown = [one.partition("=")[2] for one in given({key: trial.params[key] for key in keys})]
        value = "" if trial.value is None else f"{trial.value:.4g}"
        state = STATES.get(trial.state.name, "failed")
        rows.append([str(trial.number), *shown, value, str(trial.last_step or 0), state])
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    if not drawn or drawn[0].state.name != "COMPLETE":
        return f"{lines}\n\nno trial came to its end"
    best = shlex.join([*fixed, *given(drawn[0].params)])
    return f"{lines}\n\nbest, to be judged on the test split with other seeds:\nisentropic train {best}"
