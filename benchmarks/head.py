"""The log-prob head: log-prob and entropy of each token from its state, and gradients, beside its peers and its floor.

    python benchmarks/head.py --out benchmarks/results/head.json

One GPU. Milliseconds of forward and backward are the median of single passes between CUDA events; the peak is all that
is allocated, states, weight and both gradients included, `beyond_gib` what is so beside the states and the weight.
TRL is timed where it is installed. Errors are relative to fp64, of a few rows. Prints a line of JSON for each case.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor, nn

from isentropic.policy.model import logits_kernels
from isentropic.policy.model.logprobs import row_stats

GIB = 2**30
Stats = Callable[[Tensor, nn.Linear, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Case:
    name: str
    stats: Stats
    entropy_gradient: bool = False


def median_ms(run: Callable[[], object], repeats: int) -> float:
    for _ in range(3):
        run()
    times: list[float] = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def floor(rows: int, hidden: int, vocabulary: int, repeats: int) -> dict[str, Any]:
    """Of the three products: at the rate of a square one, and themselves."""
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    rate = 2 * 8192**3 / (median_ms(lambda: a @ a, repeats) * 1e-3)
    states = torch.randn(rows, hidden, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(vocabulary, hidden, device="cuda", dtype=torch.bfloat16)
    logits = states @ weight.T
    return {
        "case": "floor",
        "tflops": round(rate / 1e12, 1),
        "three_products_ms": round(6 * rows * hidden * vocabulary / rate * 1e3, 2),
        "logits_ms": round(median_ms(lambda: states @ weight.T, repeats), 2),
        "states_gradient_ms": round(median_ms(lambda: logits @ weight, repeats), 2),
        "weight_gradient_ms": round(median_ms(lambda: logits.T @ states, repeats), 2),
    }


def plain(states: Tensor, head: nn.Linear, targets: Tensor) -> tuple[Tensor, Tensor]:
    logp = head(states).float().log_softmax(-1)
    with torch.no_grad():
        entropy = -(logp.exp() * logp).sum(-1)
    return logp.gather(-1, targets[:, None])[:, 0], entropy


def ours(chunk: int, wanted: str) -> Stats:
    return lambda states, head, targets: row_stats(states, head, targets, 1.0, chunk, wanted)[:2]  # type: ignore


def peers() -> list[Case]:
    try:
        from trl.kernels import ChunkedLogProbFunction
        from trl.trainer.utils import selective_log_softmax_and_entropy
    except ImportError:
        return []

    def logits(entropy_gradient: bool) -> Stats:
        return lambda states, head, targets: selective_log_softmax_and_entropy(
            head(states), targets, entropy_requires_grad=entropy_gradient
        )

    def chunked(states: Tensor, head: nn.Linear, targets: Tensor) -> tuple[Tensor, Tensor]:
        asked = ("log_probs", "entropy")
        return ChunkedLogProbFunction.apply(states, head.weight, None, targets, 1.0, 8192, None, 1.0, asked)[:2]

    return [
        Case("trl_logits", logits(False)),
        Case("trl_logits, entropy's gradient", logits(True), True),
        Case("trl_chunked", chunked),
    ]


def cases(chunks: list[int]) -> list[Case]:
    budgets = [Case(f"ours, chunk {chunk}", ours(chunk, "value")) for chunk in chunks]
    most = chunks[-2:][0]  # unless others are asked for, all that 2.5 GiB hold
    return [
        Case("plain", plain),
        *peers(),
        *budgets,
        Case(f"ours, chunk {most}, no entropy", ours(most, "none")),
        Case(f"ours, chunk {most}, entropy's gradient", ours(most, "gradient"), True),
    ]


def measure(case: Case, head: nn.Linear, states: Tensor, targets: Tensor, pull: Tensor, repeats: int) -> dict[str, Any]:
    def loss() -> Tensor:
        logp, entropy = case.stats(states, head, targets)
        return (logp * pull).sum() + (0.01 * entropy.sum() if case.entropy_gradient else 0)

    def step() -> None:
        states.grad = head.weight.grad = None
        loss().backward()

    def read() -> None:
        with torch.no_grad():
            case.stats(states, head, targets)

    states.grad = head.weight.grad = None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    ms, peak = median_ms(step, repeats), torch.cuda.max_memory_allocated() / GIB
    states.grad = head.weight.grad = None
    inputs = (states.nbytes + head.weight.nbytes) / GIB
    result = {"ms": round(ms, 2), "peak_gib": round(peak, 3), "beyond_gib": round(peak - inputs, 3)}
    return result | {"read_ms": round(median_ms(read, repeats), 2)}


def errors(case: Case, head: nn.Linear, states: Tensor, targets: Tensor, pull: Tensor) -> dict[str, float]:
    """Of the first rows; the inputs of fp64 are the very numbers of bf16."""

    def gradients(stats: Stats, head: nn.Linear, states: Tensor) -> list[Tensor]:
        states = states.detach().requires_grad_()
        logp, entropy = stats(states, head, targets)
        loss = (logp * pull).sum() + (0.01 * entropy.sum() if case.entropy_gradient else 0)
        return [logp.detach(), entropy.detach(), *torch.autograd.grad(loss, [states, head.weight])]

    def exact(states: Tensor, head: nn.Linear, targets: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = head(states).log_softmax(-1)
        return log_probs.gather(-1, targets[:, None])[:, 0], -(log_probs.exp() * log_probs).sum(-1)

    double = nn.Linear(head.in_features, head.out_features, bias=False, device="meta")
    double.weight = nn.Parameter(head.weight.detach().double())
    names = ("logp_error", "entropy_error", "states_gradient_error", "weight_gradient_error")
    found, right = gradients(case.stats, head, states), gradients(exact, double, states.double())
    return {
        name: float(f"{(a.double() - b).norm() / b.norm():.2g}")
        for name, a, b in zip(names, found, right, strict=True)
        if not a.isnan().any()
    }


def tune(rows: int, vocabulary: int, repeats: int) -> list[dict[str, Any]]:
    """Both kernels on whole logits, by the columns and the warps of a program."""
    logits = torch.randn(rows, vocabulary, device="cuda", dtype=torch.bfloat16)
    targets, pull = torch.zeros(rows, device="cuda", dtype=torch.long), torch.randn(rows, device="cuda")
    room = logits_kernels.allocate_stats(targets)

    def read_into(part: Tensor, first: int, entropy: bool = True, sensitivity: bool = True) -> None:
        logits_kernels.accumulate_stats(part, first, targets, *room, 1.0, entropy, sensitivity, begins=True, ends=True)

    def read(entropy: bool, sensitivity: bool) -> float:
        return median_ms(lambda: read_into(logits, 0, entropy, sensitivity), repeats)

    def write(entropy_pull: Tensor | None) -> float:
        values = (targets, pull, pull, pull, entropy_pull, 1.0)
        return median_ms(lambda: logits_kernels.logits_grad(logits, 0, *values), repeats)

    found = [products(logits, read_into, repeats)]
    print(json.dumps(found[0]), flush=True)
    for block, warps in product((1024, 2048, 4096, 8192), (2, 4, 8)):
        logits_kernels.STATS_BLOCK = logits_kernels.GRAD_BLOCK = block
        logits_kernels.WARPS = warps
        times = {"read": read(False, False), "read_entropy": read(True, False), "read_value": read(True, True)}
        times |= {"write": write(None), "write_entropy": write(pull)}
        row = {"case": "tune", "block": block, "warps": warps}
        found.append(row | {f"{name}_ms": round(ms, 3) for name, ms in times.items()})
        print(json.dumps(found[-1]), flush=True)
    return found


def products(logits: Tensor, read_into: Callable[[Tensor, int], None], repeats: int) -> dict[str, Any]:
    """Of 1,536 numbers a state: sums in fp32 of a quarter's products, and logits that are read while in the cache."""
    rows, vocabulary = logits.shape
    weight = torch.randn(vocabulary, 1536, device="cuda", dtype=torch.bfloat16)
    states = torch.randn(rows, 1536, device="cuda", dtype=torch.bfloat16)
    total, quarter = torch.zeros(rows, 1536, device="cuda"), vocabulary // 4
    d, part = logits[:, :quarter], weight[:quarter]

    def by(step: int) -> None:
        for first in range(0, vocabulary, step):
            tokens = slice(first, first + step)
            torch.mm(states, weight[tokens].T, out=logits[:, tokens])
            read_into(logits[:, tokens], first)

    row: dict[str, Any] = {"case": "products"}
    row["bf16_ms"] = round(median_ms(lambda: d @ part, repeats), 3)
    row["fp32_ms"] = round(median_ms(lambda: torch.mm(d, part, out_dtype=torch.float32), repeats), 3)
    row["fp32_add_ms"] = round(median_ms(lambda: total.add_(torch.mm(d, part, out_dtype=torch.float32)), repeats), 3)
    sums, right = total[None], d.float() @ part.float()
    for name, run in {
        "addmm": lambda: torch.addmm(total, d, part, out_dtype=torch.float32, out=total),
        "baddbmm": lambda: torch.baddbmm(sums, d[None], part[None], out_dtype=torch.float32, out=sums),
    }.items():
        try:
            total.zero_()
            run()
            row[f"{name}_error"] = float((total - right).norm() / right.norm())
            row[f"{name}_ms"] = round(median_ms(run, repeats), 3)
        except (RuntimeError, TypeError) as error:
            row[f"{name}_error"] = repr(error)[:200]
    for step in (1024, 2048, 4096, 8192, 32768, vocabulary):
        row[f"logits_and_read_by_{step}_ms"] = round(median_ms(lambda step=step: by(step), repeats), 3)
    return row


def main() -> None:
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--rows", type=int, default=8192)
    cli.add_argument("--hidden", type=int, default=1536)
    cli.add_argument("--vocabulary", type=int, default=151936)
    cli.add_argument("--chunks", type=int, nargs="+", default=[256, 1024, 2048, 4096, 5280, 8192])
    cli.add_argument("--repeats", type=int, default=7)
    cli.add_argument("--exact", type=int, default=256, help="rows that are compared with fp64")
    cli.add_argument("--tune", action="store_true", help="time the kernels by the size of their programs, only")
    cli.add_argument("--out", type=Path)
    args = cli.parse_args()
    card = {"card": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
    shape = {"rows": args.rows, "hidden": args.hidden, "vocabulary": args.vocabulary}
    if args.tune:
        results = tune(args.rows, args.vocabulary, args.repeats)
    else:
        results = [floor(args.rows, args.hidden, args.vocabulary, args.repeats)]
        print(json.dumps(results[0]), flush=True)
        results += run(args)
    if args.out:
        args.out.write_text(json.dumps(card | shape | {"results": results}, indent=2) + "\n")


def run(args: argparse.Namespace) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    states = torch.randn(args.rows, args.hidden, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    head = nn.Linear(args.hidden, args.vocabulary, bias=False, device="meta")
    head.weight = nn.Parameter(torch.randn(args.vocabulary, args.hidden, device="cuda", dtype=torch.bfloat16) * 0.02)
    targets = torch.randint(0, args.vocabulary, (args.rows,), device="cuda")
    pull = torch.randn(args.rows, device="cuda")
    few = slice(args.exact)
    found: list[dict[str, Any]] = []
    for case in cases(args.chunks):
        row: dict[str, Any] = {"case": case.name}
        try:
            row |= measure(case, head, states, targets, pull, args.repeats)
            torch.cuda.empty_cache()
            row |= errors(case, head, states[few], targets[few], pull[few])
        except (RuntimeError, TypeError) as error:  # too little memory, or a peer of another version
            row["error"] = repr(error)[:300]
        found.append(row)
        print(json.dumps(row), flush=True)
    return found


if __name__ == "__main__":
    main()
