"""What was measured, for the screen."""

from collections.abc import Iterator
from typing import Any

from isentropic.planning.duration import ROLLOUT_PHASES, TRAINING_PHASES

# phases of a step as measured, and the plan's names of what happens in them
PHASES = {
    "sample": ROLLOUT_PHASES,
    "sleep": ("sleep",),
    "update": TRAINING_PHASES,
    "wait": (),
    "sync": ("weight sync",),
}
PARTS = ("read", "optimizer")


def text(found: dict[str, Any]) -> str:
    shapes, took = found["shapes"], found["seconds"]["median"]
    lines = [
        "",
        f"{found['model']['name']}: {found['model']['parameters'] / 1e9:.2f} B parameters, {found['ranks']} x "
        f"{found['card'] or 'CPU'}; {shapes['prompts']} x {shapes['group_size']} answers of "
        f"{shapes['prompt_tokens']} + {shapes['response_tokens']:.0f} tokens",
        "",
        f"{'seconds':<34}{'median':>10}{'first':>10}{'planned':>10}",
        *phases(found),
        "",
        *(f"{name:<34}{value:>10,.0f}" for name, value in rates(found)),
        *(f"{name:<34}{value:>10.3f}" for name, value in found.get("rollout", {}).items()),
        *(f"{f'MFU of the update, {name}':<44}{value:>10.3f}" for name, value in found.get("mfu", {}).items()),
        *(f"{f'GiB, {name}':<34}{value:>10.1f}" for name, value in found["memory"].items()),
    ]
    if planned := found.get("planned"):
        lines += [f"{f'GiB planned, {name}':<34}{value:>10.1f}" for name, value in planned["peaks"].items()]
        lines += planned["advice"]
    if ratio := found.get("ratio"):
        peer = found["peer"]
        lines += ["", f"{peer['name']}: {peer['step']:.1f} s a step, {peer['memory']['used']:.1f} GiB of the card"]
        lines += [f"ours is {ratio['seconds']:.2f} of its seconds; it took {took['step']:.1f}"]
        lines += [f"ours is {ratio['used']:.2f} of its memory"] if "used" in ratio else []
        if peer["exit_code"]:
            lines += [f"it ended with exit code {peer['exit_code']} after {len(peer['seconds'])} rollouts"]
    return "\n".join(lines)


def phases(found: dict[str, Any]) -> Iterator[str]:
    middle, first = found["seconds"]["median"], found["seconds"]["first"]
    plan = found.get("planned", {"seconds": {}, "step_seconds": 0.0})
    planned = plan["seconds"]
    for phase, names in PHASES.items():
        expected = sum(planned.get(name, 0.0) for name in names)
        if phase in middle or expected:
            yield line(phase, middle, first, expected)
        if phase == "update":
            yield from (line(part, middle, first, 0.0, "  ") for part in PARTS if part in middle)
    yield line("step", middle, first, plan["step_seconds"])  # less than their sum where two go on at a time
    if mean := found["seconds"].get("mean_step"):
        yield line("step, mean", {"step, mean": mean}, {}, 0.0)


def line(phase: str, middle: dict[str, float], first: dict[str, float], planned: float, indent: str = "") -> str:
    cells = [middle.get(phase, 0.0), first.get(phase, 0.0), planned]
    return f"{indent + phase:<34}" + "".join(f"{cell:>10.2f}" if cell else f"{'':>10}" for cell in cells)


def rates(found: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in found["tokens_per_second_and_rank"].items():
        yield f"tokens/s and GPU, {name}", value
