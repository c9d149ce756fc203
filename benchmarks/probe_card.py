"""What an update of 1.5 B could save on one GPU, part by part: micro-batches, attention, joined products, sums.

    python benchmarks/probe_card.py --out FILE

Writes a line of JSON for each part as soon as it is known, with the error's text where a part fails; begins nothing
new after `--seconds`. `ms` and `mfu` are of an update's micro-batches without an optimizer step, beside as many bytes
as AdamW's state would take.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from update import updating, written

from isentropic.policy.model.attention_kernels import (
    cudnn_attention,
    cudnn_attention_backward,
    flash_attention,
    flash_attention_backward,
)
from isentropic.policy.model.joined_products import join_products, separate
from isentropic.policy.model.language_model import LanguageModel, ModelSettings
from isentropic.policy.model.packed_attention import BY_CUDNN, NAME
from isentropic.policy.model.self_check import cudnn_is_wrong
from isentropic.policy.model.two_rows import use_attention

LENGTH, PROMPT, GROUP, PEAK = 1152, 128, 8, 989e12
HEADS, KEY_HEADS, SIZE, HIDDEN, INNER = 12, 2, 128, 1536, 8960


class Probe:
    """Lines of a file, and the time that is left."""

    def __init__(self, out: Path, seconds: float) -> None:
        self.out, self.end, self.began = out, time.perf_counter() + seconds, time.perf_counter()
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text("")

    def say(self, part: str, **figures: Any) -> None:
        line = json.dumps({"part": part, "at_s": round(time.perf_counter() - self.began, 1)} | figures)
        print(line, flush=True)
        with self.out.open("a") as file:
            file.write(line + "\n")

    @contextmanager
    def part(self, name: str) -> Iterator[dict[str, Any]]:
        """Figures put into the dict become a line; an error too."""
        found: dict[str, Any] = {}
        try:
            if time.perf_counter() > self.end:
                raise TimeoutError("no time left")
            yield found
        except Exception as error:
            found["error"] = f"{type(error).__name__}: {str(error)[:400]}"
        self.say(name, **found)
        if "OutOfMemory" in found.get("error", ""):
            torch.cuda.empty_cache()


def milliseconds(work: Callable[[], Any], times: int = 20) -> float:
    """Of the GPU, a call, after three others."""
    for _ in range(3):
        work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(times):
        work()
    end.record()
    end.synchronize()
    return round(start.elapsed_time(end) / times, 4)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def off(one: Any, other: Any) -> list[float]:
    """Parts of the norms by which tensors differ."""
    return [round(float((a - b).float().norm() / b.float().norm()), 5) for a, b in zip(one, other, strict=True)]


def attention(probe: Probe, rows: int) -> None:
    """Milliseconds of a layer: flash, cuDNN over rectangles, and cuDNN over cumulative lengths."""
    length = LENGTH - 1
    query, key, value, slope = (drawn(rows * length, n, SIZE) for n in (HEADS, KEY_HEADS, KEY_HEADS, HEADS))
    edges = torch.arange(rows + 1, device="cuda", dtype=torch.int32) * length
    heads, both, scale = (query, key, value), (edges, edges, length, length), SIZE**-0.5
    with probe.part(f"attention {rows} rows, flash") as found:
        out, lse = flash_attention(*heads, *both, True, scale)
        grads = flash_attention_backward(slope, *heads, out, lse, *both, True, scale)
        found["forward_ms"] = milliseconds(lambda: flash_attention(*heads, *both, True, scale))
        found["backward_ms"] = milliseconds(
            lambda: flash_attention_backward(slope, *heads, out, lse, *both, True, scale)
        )
    with probe.part(f"attention {rows} rows, cuDNN rectangle") as found:
        other, stats = cudnn_attention(*heads, length, scale)
        found["off_flash"] = off((other, stats), (out, lse))
        found["forward_ms"] = milliseconds(lambda: cudnn_attention(*heads, length, scale))
        theirs = cudnn_attention_backward(slope, *heads, other, stats, length, scale)
        found["gradients_off_flash"] = off(theirs, grads)
        found["backward_ms"] = milliseconds(
            lambda: cudnn_attention_backward(slope, *heads, other, stats, length, scale)
        )


def cumulative(probe: Probe, rows: int) -> None:
    """cuDNN by cumulative lengths: last, as an error in it may leave the GPU unusable."""
    length, scale = LENGTH - 1, SIZE**-0.5
    heads = [drawn(rows * length, n, SIZE) for n in (HEADS, KEY_HEADS, KEY_HEADS)]
    edges = torch.arange(rows + 1, device="cuda", dtype=torch.int32) * length
    both, call = (edges, edges, length, length), torch.ops.aten._cudnn_attention_forward
    with probe.part(f"attention {rows} rows, cuDNN by cumulative lengths") as found:
        out = flash_attention(*heads, *both, True, scale)[0]
        found["off_flash"] = off([call(*heads, None, *both, True, 0.0, True, scale=scale)[0]], [out])
        found["forward_ms"] = milliseconds(lambda: call(*heads, None, *both, True, 0.0, True, scale=scale), 5)


def products(probe: Probe, tokens: int) -> None:
    """Milliseconds of a layer's products of one input, forward and backward: apart and joined."""
    for name, widths in ("qkv", [HEADS * SIZE, KEY_HEADS * SIZE, KEY_HEADS * SIZE]), ("gate and up", [INNER, INNER]):
        with probe.part(f"products {name}, {tokens} tokens") as found:
            x = drawn(tokens, HIDDEN).requires_grad_()
            weights = [drawn(width, HIDDEN).requires_grad_() for width in widths]
            slopes = [drawn(tokens, width) for width in widths]

            def apart(x: Tensor = x, weights: Any = weights, slopes: Any = slopes) -> None:
                torch.autograd.grad([x @ w.T for w in weights], [x, *weights], slopes)

            def joined(x: Tensor = x, weights: Any = weights, slopes: Any = slopes) -> None:
                torch.autograd.grad([x @ torch.cat(weights).T], [x, *weights], [torch.cat(slopes, -1)])

            found |= {"apart_ms": milliseconds(apart), "joined_ms": milliseconds(joined)}


def sums(probe: Probe, model: LanguageModel) -> None:
    """Milliseconds of adding bf16 gradients of all weights to fp32 ones, as after each micro-batch."""
    with probe.part("gradients added in fp32") as found:
        total = [torch.zeros_like(weight) for weight in model.parameters()]
        found["read_and_written_gb"] = round(sum(10 * t.numel() for t in total) / 1e9, 2)
        part = [t.bfloat16() for t in total]
        found["one_by_one_ms"] = milliseconds(lambda: [a.add_(b) for a, b in zip(total, part, strict=True)], 3)
        found["foreach_ms"] = milliseconds(lambda: torch._foreach_add_(total, part), 3)
        add = torch.compile(lambda a, b: a.add_(b), dynamic=True)
        flat = [(a.flatten(), b.flatten()) for a, b in zip(total, part, strict=True)]
        found["compiled_ms"] = milliseconds(lambda: [add(a, b) for a, b in flat], 3)


def update(probe: Probe, name: str, model: LanguageModel, rows: int, chunk: int, share: bool = False) -> None:
    """An update's micro-batches of so many rows."""
    with probe.part(f"update, {name}") as found:
        found |= {"rows": rows, "tokens": rows * LENGTH, "chunk": chunk, "share_prompts": share}
        model.settings, model.shares_prompts = replace(model.settings, logits_chunk=chunk), share
        micros = max(1, 28 // rows)
        run = updating(model, LENGTH, PROMPT, rows, micros, False, next(model.parameters()).device, GROUP)
        found["first_s"] = round(run(), 2)
        torch.cuda.reset_peak_memory_stats()
        seconds = min(run() for _ in range(3))
        tokens, parameters = rows * micros * LENGTH, sum(p.numel() for p in model.parameters())
        found["ms_of_micro_batch"] = round(1000 * seconds / micros, 2)
        found["us_per_token"] = round(1e6 * seconds / tokens, 3)
        found["s_of_590k_tokens"] = round(seconds / tokens * 64 * 8 * LENGTH, 3)
        found["mfu"] = round(6 * parameters * tokens / seconds / PEAK, 4)
        found["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)


def updates(probe: Probe, model: LanguageModel) -> None:
    """Each apart, then together; the first of each kind of layer compiles."""
    update(probe, "as today", model, 7, 4096)
    for rows, chunk in [(14, 4096), (14, 8192), (14, 16384), (28, 16384)]:
        update(probe, f"{rows} rows, chunk {chunk}", model, rows, chunk)
    update(probe, "shared prompts", model, 16, 16384, True)
    use_attention(model.lm, BY_CUDNN)
    for rows, chunk, share in [(16, 16384, True), (7, 4096, False), (14, 16384, False)]:
        update(probe, "cuDNN", model, rows, chunk, share)
    changed = join_products(model.layers, "attention")
    for rows, chunk, share in [(16, 16384, True), (32, 16384, True), (14, 16384, False), (28, 16384, False)]:
        update(probe, "cuDNN and joined qkv", model, rows, chunk, share)
    changed += join_products(model.layers, "all")
    for rows, share in [(16, True), (32, True)]:
        update(probe, "cuDNN and all joined", model, rows, 16384, share)
    separate(changed)
    use_attention(model.lm, NAME)
    join_products(model.layers, "attention")
    update(probe, "joined qkv", model, 7, 4096)
    update(probe, "joined qkv", model, 14, 16384)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=120, help="after which nothing new begins")
    args = parser.parse_args()
    probe = Probe(args.out, args.seconds)
    with probe.part("machine") as found:
        free, whole = torch.cuda.mem_get_info()
        found |= {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
        found |= {"card": torch.cuda.get_device_name(), "free_gib": free / 2**30, "gib": whole / 2**30}
    with probe.part("cuDNN's self-check") as found:
        found["wrong"] = cudnn_is_wrong(HEADS, KEY_HEADS, SIZE)
    for rows in (7, 14):
        attention(probe, rows)
        products(probe, rows * LENGTH)
    with probe.part("model") as found:
        settings = ModelSettings(str(written("1.5b")), "bfloat16", 4096, True, "selective", True, True)
        model = LanguageModel(settings).cuda()
        found |= {"packed": model.packed, "shares_prompts": model.shares_prompts}
        held = torch.empty(8 * sum(p.numel() for p in model.parameters()), dtype=torch.uint8, device="cuda")
        found["beside_gib"] = round(held.numel() / 2**30, 2)
        sums(probe, model)
        updates(probe, model)
    cumulative(probe, 7)


if __name__ == "__main__":
    main()
