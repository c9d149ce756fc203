"""From the metrics of a run to what is reported of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from isentropic.planning.architecture import Architecture
from isentropic.runs.metrics import read_metrics

# read and optimizer are parts of update; wait is there where rollouts are drawn ahead
PHASES = ("step", "sample", "sleep", "update", "read", "optimizer", "wait", "sync")
MEMORY = ("update_allocated", "update_reserved", "update_used", "rollout_allocated", "rollout_used", "slept")

# of the answers: their mean length, slot-steps of the engine without a sequence, and updates since they were drawn
ROLLOUT = ("rollout/length", "sampler/idle_share", "rollout/staleness", "rollout/staleness_max")

Row = Mapping[str, float]


@dataclass(frozen=True)
class Shapes:
    """Of one rollout, over all ranks."""

    prompts: int
    group_size: int
    prompt_tokens: int
    response_tokens: float  # of each answer, or their mean
    updates: int

    @property
    def answers(self) -> int:
        return self.prompts * self.group_size

    @property
    def written(self) -> float:
        """Tokens of the answers."""
        return self.answers * self.response_tokens

    @property
    def tokens(self) -> float:
        """All that the policy learns from, prompts included."""
        return self.answers * (self.prompt_tokens + self.response_tokens)


def rows(metrics: Path) -> list[Row]:
    """One per rollout."""
    found: dict[int, dict[str, float]] = {}
    for name, logged in read_metrics([metrics], ".+").series.items():
        for step, value in zip(logged.steps.tolist(), logged.values.tolist(), strict=True):
            found.setdefault(step, {})[name] = value
    return [found[step] for step in sorted(found) if "throughput/step_seconds" in found[step]]


def seconds(lines: Sequence[Row]) -> dict[str, Any]:
    """The first rollout warms up and compiles, so it stands apart from the median of the others, if any."""
    steps = [{p: row[f"throughput/{p}_seconds"] for p in PHASES if f"throughput/{p}_seconds" in row} for row in lines]
    later = steps[1:] or steps
    middle = {phase: median(step[phase] for step in later) for phase in later[0]}
    mean = fmean(step["step"] for step in later)  # rollouts whose answers go on take their turns in being long
    return {"median": middle, "first": steps[0], "steps": steps, "mean_step": mean}


def later(lines: Sequence[Row], name: str) -> float:
    """The mean of a metric over the rollouts after the first, or of the first where it is all."""
    return fmean(row[name] for row in lines[1:] or lines)


def memory(lines: Sequence[Row]) -> dict[str, float]:
    """GiB, of the rank that held most; empty on a CPU."""
    return {
        name: max(row[f"memory/{name}"] for row in lines if f"memory/{name}" in row)
        for name in MEMORY
        if any(f"memory/{name}" in row for row in lines)
    }


def rates(shapes: Shapes, took: Mapping[str, float], ranks: int) -> dict[str, float]:
    """Tokens per second and rank: the step's count prompts and answers, the rollout's only what was written."""
    return {
        "step": shapes.tokens / took["step"] / ranks,
        "rollout": shapes.written / took["sample"] / ranks,
        "training": shapes.tokens / took["update"] / ranks,
    }


def mfu(model: Architecture, shapes: Shapes, took: Mapping[str, float], ranks: int, peak: float) -> dict[str, float]:
    """Shares of the card's `peak` operations per second, in the training part with all that belongs to it.

    Six operations per parameter and token; recomputation is not counted, nor is attention but in the last.
    """
    inside = model.layers * model.layer + model.hidden
    attention = 3 * shapes.answers * model.attention(round(shapes.prompt_tokens + shapes.response_tokens))
    per_second = 1 / (took["update"] * ranks * peak)
    return {
        "all parameters": 6.0 * model.parameters * shapes.tokens * per_second,
        "without embeddings": 6.0 * inside * shapes.tokens * per_second,
        "all parameters and attention": (6.0 * model.parameters * shapes.tokens + attention) * per_second,
    }
