"""A plan as a whole: its parts, its totals, and how it reads."""

from dataclasses import dataclass
from typing import Any

from isentropic.planning.architecture import Architecture
from isentropic.planning.card import Card
from isentropic.planning.duration import Duration
from isentropic.planning.memory import GIB, Memory
from isentropic.planning.workload import Workload


@dataclass(frozen=True)
class Plan:
    name: str  # of the model
    model: Architecture
    work: Workload
    card: Card
    memory: Memory
    duration: Duration
    advice: list[str]
    quicker: list[str]

    @property
    def hours(self) -> float:
        """Of all GPUs together."""
        return self.duration.run(self.work, self.card) * self.work.gpus_of_run / 3600

    @property
    def tokens(self) -> float:
        """Of answers learnt from in one rollout, on all ranks."""
        return self.work.rows * self.work.lengths.mean(self.work.max_tokens) * self.work.ranks

    @property
    def mfu(self) -> float:
        """Of the update: 6 operations per parameter and token, over the card's peak."""
        return self.duration.model_flops / self.duration.phases["update"] / self.card.flops


def summary(plan: Plan) -> dict[str, Any]:
    """Plain containers: memory in GiB, time in seconds."""
    gib = {moment: {item: size / GIB for item, size in items.items()} for moment, items in plan.memory.peaks.items()}
    return {
        "model": plan.name,
        "parameters": plan.model.parameters,
        "card": plan.card.name,
        "gpus": plan.work.gpus_of_run,
        "room": plan.memory.room / GIB,
        "memory": gib,
        "peaks": {moment: sum(items.values()) for moment, items in gib.items()},
        "host": plan.memory.host / GIB,
        "seconds": plan.duration.phases,
        "step_seconds": plan.duration.step,
        "evaluation_seconds": plan.duration.evaluation,
        "tokens": plan.tokens,
        "mfu": plan.mfu,
        "steps": plan.work.rollouts,
        "gpu_hours": plan.hours,
        "advice": plan.advice,
        "quicker": plan.quicker,
    }


def text(plan: Plan) -> str:
    """For the screen."""
    work, took = plan.work, plan.duration
    part = f"each with 1/{work.shards} of it" if work.shards > 1 else "each with all of it"
    lines = [
        f"{plan.name}: {plan.model.parameters / 1e9:.2f} B parameters on {work.ranks} x {plan.card.name}, {part}",
        f"answers are taken to have {work.lengths.mean(work.max_tokens):.0f} of {work.max_tokens} tokens on average "
        f"(lengths.share={work.lengths.share:g})",
        *(
            [f"and to read {work.lengths.observed} tokens between turns (lengths.observed)"]
            if work.lengths.observed
            else []
        ),
        "",
        *memory_table(plan),
        "",
        f"seconds of a step{'':<15}",
        *(f"  {name:<30}{seconds:>9.1f}" for name, seconds in took.phases.items()),
        *([f"  {'of these, overlapped':<30}{took.hidden:>9.1f}"] if took.hidden else []),
        f"  {'together':<30}{took.step:>9.1f}  {plan.tokens / took.step / work.ranks:,.0f} tokens/s and GPU",
        "",
        f"update: {plan.mfu:.0%} of {plan.card.name}'s {plan.card.flops / 1e12:.0f} TFLOP/s in 6 operations per "
        f"parameter and token; {took.sequences:.0f} answers at one time in each engine",
        f"run: {work.rollouts} rollouts, {work.rollouts * work.updates} optimizer steps, {work.evaluations} "
        f"evaluations of {took.evaluation:.0f} s; {plan.hours / work.gpus_of_run:,.1f} hours, "
        f"{plan.hours:,.0f} GPU-hours",
        f"host: {plan.memory.host / GIB:.0f} GiB of a node's memory",
        "",
        *plan.quicker,
        *(plan.advice or ["All of it fits."]),
    ]
    return "\n".join(lines)


def memory_table(plan: Plan) -> list[str]:
    peaks = plan.memory.peaks
    names = list(dict.fromkeys(name for items in peaks.values() for name in items))
    width = max(map(len, names)) + 2
    columns = [max(len(moment), 8) + 2 for moment in peaks]
    heads = "".join(f"{moment:>{column}}" for moment, column in zip(peaks, columns, strict=True))
    lines = [f"{'GiB on a GPU':<{width + 2}}{heads}"]
    for name in names:
        cells = [f"{items[name] / GIB:.1f}" if items.get(name) else "" for items in peaks.values()]
        if any(cells):
            row = "".join(f"{cell:>{column}}" for cell, column in zip(cells, columns, strict=True))
            lines.append(f"  {name:<{width}}{row}")
    total = "".join(
        f"{plan.memory.peak(moment) / GIB:>{column}.1f}" for moment, column in zip(peaks, columns, strict=True)
    )
    return [*lines, f"  {f'together, of {plan.memory.room / GIB:.1f}':<{width}}{total}"]
