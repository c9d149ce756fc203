"""A plan beside what was measured of the same run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from isentropic.planning.duration import ROLLOUT_PHASES, TRAINING_PHASES
from isentropic.planning.memory import GIB
from isentropic.planning.plan import Plan

TRAINING_MOMENTS = ("update", "optimizer step", "old log-probs")  # of memory, while the policy learns
# as the table calls it: the plan's phases, or none for the whole step, and the benchmark's
PHASES = {
    "rollout": (ROLLOUT_PHASES, "sample"),
    "update": (TRAINING_PHASES, "update"),
    "sync": (("weight sync",), "sync"),
    "step": ((), "step"),
}


@dataclass(frozen=True)
class Comparison:
    name: str
    plan: Plan
    found: Mapping[str, Any]  # by the benchmark

    @property
    def rollouts(self) -> int:
        return len(self.found["seconds"]["steps"])

    def memory(self) -> Iterator[tuple[str, float, float]]:
        """GiB of the card, planned and measured, where the optimizer had its state by then."""
        held, beside = self.plan.memory, self.plan.card.overhead(self.plan.work.shards)
        if self.rollouts > 1 or self.plan.work.updates > 1:
            update_items = max(held.peak(moment) for moment in TRAINING_MOMENTS if moment in held.peaks)
            yield "learning", update_items / GIB + beside, self.found["memory"]["update_used"]
        if self.rollouts > 1:
            yield "answering", held.peak("rollout") / GIB + beside, self.found["memory"]["rollout_used"]

    def seconds(self) -> Iterator[tuple[str, float, float]]:
        """Of a first rollout only its answers, as the rest is mostly compiling."""
        took = self.plan.duration
        for phase, (ours, measured) in PHASES.items():
            planned = sum(took.phases.get(name, 0.0) for name in ours) if ours else took.step
            if self.rollouts > 1 or phase == "rollout":
                yield phase, planned, self.found["seconds"]["median"][measured]


def table(comparisons: list[Comparison]) -> Iterator[tuple[str, ...]]:
    """Rows of cells, each "planned / measured"."""
    yield ("run", "card", "GPUs", "GiB learning", "answering", "rollout, s", "update", "sync", "step")
    yield ("---",) * 9
    for one in comparisons:
        cells = {name: f"{planned:.0f} / {found:.0f}" for name, planned, found in one.memory()}
        cells |= {name: f"{planned:.1f} / {found:.1f}" for name, planned, found in one.seconds()}
        shown = (cells.get(name, "") for name in ("learning", "answering", *PHASES))
        yield one.name, one.plan.card.name, str(one.plan.work.ranks), *shown
