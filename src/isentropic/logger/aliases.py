"""Metrics under the names that verl 0.9.1 and TRL 1.16.0 give them: `logger.alias=verl`, `logger.alias=trl`.

A name is here only if both mean the same number. Run as a module, it writes the table of docs/metrics.md.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lightning.pytorch.loggers import Logger

Alias = Literal["verl", "trl"]
START, END = "<!-- aliases: written by python -m isentropic.logger.aliases -->", "<!-- end of aliases -->"
PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


@dataclass(frozen=True)
class Name:
    """What they call the sum of some of our metrics; one is replaced by it, of several it stands beside."""

    theirs: str
    ours: tuple[str, ...]
    note: str = ""  # where the two part


NAMES: dict[Alias, tuple[Name, ...]] = {
    "verl": (
        Name("actor/entropy", ("entropy/mean",), "verl's default, `loss_agg_mode=token-mean`"),
        Name("actor/pg_clipfrac", ("clipping/clipped_low", "clipping/clipped_high")),
        Name("actor/pg_clipfrac_lower", ("clipping/clipped_ceiling",)),
        Name("actor/loss", ("policy/loss",), "penalties included, unlike `actor/pg_loss`"),
        Name("actor/grad_norm", ("policy/grad_norm",)),
        Name("actor/lr", ("policy/lr",), "verl's is the one after the last update"),
        Name("critic/score/mean", ("rollout/reward",)),
        Name("critic/rewards/mean", ("rollout/reward",), "no KL in the reward, verl's default"),
        Name("response_length/mean", ("rollout/length",)),
        Name("perf/time_per_step", ("throughput/step_seconds",), "verl's has the time of saving a checkpoint too"),
        Name("timing_s/update_weights", ("throughput/sync_seconds",)),
        Name("val-core/<task>/acc/mean@<k>", ("eval/avg@<k>",)),
    ),
    "trl": (
        Name("entropy", ("entropy/mean",), "TRL reads it at each update, we before the first"),
        Name("clip_ratio/low_mean", ("clipping/clipped_low",)),
        Name("clip_ratio/high_mean", ("clipping/clipped_high",)),
        Name("clip_ratio/region_mean", ("clipping/clipped_low", "clipping/clipped_high")),
        Name("loss", ("policy/loss",)),
        Name("grad_norm", ("policy/grad_norm",)),
        Name("learning_rate", ("policy/lr",), "TRL's is of one update"),
        Name("reward", ("rollout/reward",)),
        Name("frac_reward_zero_std", ("rollout/all_right", "rollout/all_wrong"), "where the reward is the verdict"),
        Name("completions/mean_length", ("rollout/length",)),
        Name("completions/clipped_ratio", ("rollout/truncated",)),
        Name("sampling/sampling_logp_difference/mean", ("sampler/logp_gap",)),
        Name("sampling/sampling_logp_difference/max", ("sampler/logp_gap_max",)),
    ),
}


def renamed(metrics: Mapping[str, float], alias: Alias | None, task: str) -> dict[str, float]:
    """Metrics for which they have no name keep ours; `task` is the dotted path of the task's class."""
    result, names = dict(metrics), NAMES[alias] if alias else ()
    for name in names:
        for k, parts in found(name, metrics).items():
            result[name.theirs.replace("<task>", source(task)).replace("<k>", k)] = sum(parts)
            if len(name.ours) == 1:
                result.pop(name.ours[0].replace("<k>", k), None)
    return result


def found(name: Name, metrics: Mapping[str, float]) -> dict[str, list[float]]:
    """By k, which is nothing where the name has none, the values that it sums."""
    parts: dict[str, list[float]] = {}
    for ours in name.ours:
        pattern = re.compile(re.escape(ours).replace("<k>", r"(\d+)"))
        for metric, value in metrics.items():
            if match := pattern.fullmatch(metric):
                parts.setdefault("".join(match.groups()), []).append(value)
    return parts


def source(task: str) -> str:
    """The module of a task, as verl speaks of data sources."""
    return task.rpartition(".")[0].rpartition(".")[2]


class Aliased(Logger):
    """Before a logger of Lightning's in the order of bases: what that one writes goes by other names."""

    alias: Alias | None
    task: str  # dotted path of its class

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        super().log_metrics(self.named(metrics), step)

    def named(self, metrics: Mapping[str, float]) -> dict[str, float]:
        return renamed(metrics, self.alias, self.task)


def check(alias: str | None, loggers: Sequence[Logger]) -> None:
    """Raises ValueError for names that no logger would write."""
    if alias is not None and not any(isinstance(logger, Aliased) for logger in loggers):
        raise ValueError(
            f"logger.alias={alias} names what other loggers than csv write, and none is chosen; "
            "add one, as in 'logger=[csv,tensorboard]', or leave the alias out"
        )


def table() -> str:
    """Markdown: our names, theirs, and where the two part."""
    lines = ["| `logger.alias` | metric | theirs | |", "|---|---|---|---|"]
    for alias, names in NAMES.items():
        for name in names:
            ours = " + ".join(f"`{one}`" for one in name.ours)
            lines.append(f"| `{alias}` | {ours} | `{name.theirs}` | {name.note} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """docs/metrics.md with the table renewed. Raises ValueError without the marks."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"{PAGE.name} must have the lines {START} and {END}")
    return f"{before}{START}\n{table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
