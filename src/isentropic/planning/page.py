"""The tables of docs/plan.md: what was measured, and the papers' runs on 8, 16 and 64 GPUs."""

from collections.abc import Callable, Iterable, Iterator

from isentropic.planning.advice import fitting_share
from isentropic.planning.measured import Comparison, table
from isentropic.planning.memory import GIB
from isentropic.planning.plan import Plan

GPUS = 8, 16, 64
# by card, those that differ in more than their algorithm: clip_cov_* take what kl_cov_* take, grpo_s_* what gtpo_* take
PRESETS = {
    "h100": (
        "stare_qwen2_5_math_7b",
        "stare_qwen2_5_14b",
        "stare_r1_distill_qwen_1_5b",
        "stare_qwen3_8b_base",
        "stapo_qwen3_1_7b_base",
        "stapo_qwen3_8b_base",
        "stapo_qwen3_14b_base",
        "just_rl_r1_distill_qwen_1_5b",
        "top_entropy_qwen3_8b_base",
        "top_entropy_qwen3_14b_base",
        "gtpo_qwen2_5_7b",
        "flexible_qwen2_5_math_7b",
        "flexible_qwen2_5_7b",
        "kl_cov_qwen2_5_7b",
    ),
    "h200": ("stare_qwen2_5_32b", "dapo_qwen2_5_32b", "gtpo_qwen2_5_32b", "kl_cov_qwen2_5_32b"),
}
HEADS = (
    "preset",
    "card",
    "GPUs",
    "peak, GiB",
    "engine's share",
    "step, s",
    "rollout",
    "update",
    "MFU",
    "days",
    "GPU-hours",
)

# preset, card, GPUs, and the engine's share of a card, None for the preset's own
Planner = Callable[[str, str, int, float | None], Plan]

START, END = "<!-- runs: written by isentropic plan table=docs/plan.md -->", "<!-- end of runs -->"


def page(text: str, planned: Planner, comparisons: list[Comparison]) -> str:
    """The text with its tables renewed. Raises ValueError without the marks."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"the file must have the lines {START} and {END}")
    tables = [written(table(comparisons)), written([HEADS, ("---",) * len(HEADS), *runs(planned)])]
    return f"{before}{start}\n{tables[0]}\n{tables[1]}{end}{after}"


def written(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def runs(planned: Planner) -> Iterator[tuple[str, ...]]:
    for card, presets in PRESETS.items():
        for preset in presets:
            for gpus in GPUS:
                yield row(preset, fitted(planned, preset, card, gpus))


def fitted(planned: Planner, preset: str, card: str, gpus: int) -> Plan:
    """With less for the engine where that is what it needs to fit."""
    plan = planned(preset, card, gpus, None)
    over = plan.memory.peak("rollout") - plan.memory.room
    share = fitting_share(plan.model, plan.work, plan.card, over) if over > 0 else None
    return plan if share is None else planned(preset, card, gpus, share)


def row(preset: str, plan: Plan) -> tuple[str, ...]:
    peak = max(map(plan.memory.peak, plan.memory.peaks))
    fits = "" if peak <= plan.memory.room else ", does not fit"
    took, engine = plan.duration, plan.work.engine
    cells = [
        f"`{preset}`",
        plan.card.name,
        str(plan.work.ranks),
        f"{peak / GIB:.0f} of {plan.memory.room / GIB:.0f}{fits}",
    ]
    cells += [f"{engine.share:g}" if engine and engine.share else "", f"{took.step:,.0f}"]
    cells += [f"{took.phases['rollout']:,.0f}", f"{took.phases['update']:,.0f}", f"{plan.mfu:.2f}"]
    return *cells, f"{plan.hours / plan.work.gpus_of_run / 24:,.1f}", f"{plan.hours:,.0f}"
