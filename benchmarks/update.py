"""The update of a policy: what compiling costs, what the host does per micro-batch, and what the GPU does meanwhile.

    python benchmarks/update.py --model 0.5b --out benchmarks/results/update.json
    python benchmarks/update.py --model 1.5b --share
    torchrun --nproc-per-node 2 benchmarks/update.py --model 1.5b

Random weights of the shapes of `isentropic benchmark`. `full_ms` is of micro-batches of `--rows`; `host_ms` of 1 row,
which a GPU is done with before the next is asked for, so that it is what the host takes. `busy` is the GPU's share of
the time, by the profiler. Several ranks share the model by FSDP2. Prints JSON, and the costliest kernels and waits of
the GPU.
"""

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from omegaconf import OmegaConf
from torch.distributed.device_mesh import init_device_mesh
from torch.profiler import ProfilerActivity, profile

from isentropic.algorithm.advantage.grpo import Grpo
from isentropic.algorithm.aggregation.token_mean import TokenMean
from isentropic.algorithm.algorithm import Algorithm
from isentropic.algorithm.clipping.fixed import Fixed
from isentropic.algorithm.control.constant import Constant
from isentropic.algorithm.ratio.token import TokenRatio
from isentropic.batch import Drive, RolloutBatch, TokenStats
from isentropic.benchmarking.model import sizes, write
from isentropic.policy.batching.micro_batches import micro_batches
from isentropic.policy.model.language_model import LanguageModel, ModelSettings
from isentropic.policy.update import Update, scored

ROOT = Path(__file__).parents[1]


def written(name: str) -> Path:
    """The folder of isentropic.commands.benchmark's model of that name, made where there is none yet."""
    known: Any = OmegaConf.to_container(OmegaConf.load(ROOT / "configs/benchmark.yaml").benchmark.models)
    folder = Path(tempfile.gettempdir()) / "isentropic" / name
    write(folder, sizes(name, known, str(ROOT / "src/isentropic/assets/architectures.yaml")))
    return folder


def updating(
    model: LanguageModel, length: int, prompt: int, rows: int, count: int, sharded: bool, device: torch.device,
    group: int | None = None,
) -> Any:  # fmt: skip
    """An update of so many micro-batches of so many rows, without its optimizer step; a prompt is of `group` rows."""
    number, group = rows * count, group or rows
    mask = (torch.arange(length, device=device) >= prompt).expand(number, -1).contiguous()
    unknown, flag = torch.full(mask.shape, torch.nan, device=device), torch.zeros(number, dtype=torch.bool).to(device)
    tokens = torch.randint(1, model.lm.config.vocab_size, mask.shape, device=device)
    tokens[:, :prompt] = tokens[torch.arange(number) // group * group, :prompt]
    nothing = TokenStats(unknown, unknown, unknown)
    batch = RolloutBatch(tokens, mask, torch.arange(number, device=device), flag.float(), flag, flag, unknown)
    algorithm = Algorithm(
        Constant(0.0, 0.0), Grpo(divide_by_std=True), {}, TokenRatio(), Fixed(0.2, 0.2, 10.0), {}, TokenMean(), "step"
    )
    update = Update(model, algorithm, 1.0, sharded, True, torch.Tensor.backward)
    micros = micro_batches(mask, rows, None, True, model.shared_prompts(batch))

    def run() -> float:
        began = time.perf_counter()
        with model.keep_gathered(enabled=not sharded):
            update(scored(batch, nothing, unknown), torch.randn_like(unknown), nothing, Drive(), micros)
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        model.zero_grad()
        return seconds

    return run


def idle(seen: profile) -> Counter[str]:
    """Microseconds in which the GPU had nothing to do, by the kernel that it then was given."""
    found, end = Counter[str](), None
    for one in sorted(
        (event for event in seen.events() or () if str(event.device_type).endswith("CUDA")),
        key=lambda event: event.time_range.start,
    ):
        if end is not None and one.time_range.start > end:
            found[one.name] += int(one.time_range.start - end)
        end = max(end or 0, one.time_range.end)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="0.5b", help="as benchmark.model: 0.5b, 1.5b, 7b, tiny, Qwen/Qwen3-8B-Base")
    parser.add_argument("--micros", type=int, default=8)
    parser.add_argument("--length", type=int, default=1152, help="tokens of a row")
    parser.add_argument("--prompt", type=int, default=128, help="of which so many are its prompt")
    parser.add_argument("--rows", type=int, default=7, help="of a micro-batch, with one prompt")
    parser.add_argument("--checkpointing", default="selective")
    parser.add_argument("--sharded", action="store_true", help="gradients and weights after each micro-batch")
    parser.add_argument("--share", action="store_true", help="a prompt goes through once for a micro-batch")
    parser.add_argument("--group", type=int, help="rows of a prompt, where a micro-batch has several prompts")
    parser.add_argument("--chunk", type=int, default=4096, help="answer tokens whose logits exist at one time")
    parser.add_argument("--joined", action="store_true", help="queries, keys and values by one product")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    ranks, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    cuda, mesh = torch.cuda.is_available(), None
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    if ranks > 1:
        dist.init_process_group("nccl" if cuda else "gloo")
        mesh = init_device_mesh(device.type, (ranks,))
    layers = args.checkpointing, True, args.share, args.joined
    settings = ModelSettings(str(written(args.model)), "bfloat16", args.chunk, True, *layers)
    model = LanguageModel(settings, mesh).to(device)
    run = updating(model, args.length, args.prompt, args.rows, args.micros, args.sharded, device, args.group)
    found: dict[str, Any] = {"model": args.model, "ranks": ranks, "first_s": run(), "torch": torch.__version__}
    times = torch._dynamo.utils.compilation_time_metrics
    found["compiling_s"] = {
        name: round(sum(spent), 2) for name, spent in sorted(times.items(), key=lambda item: -sum(item[1]))[:24]
    }
    found["full_ms"] = 1000 * min(run() for _ in range(3)) / args.micros
    alone = updating(model, args.length, args.prompt, 1, args.micros, args.sharded, device)
    alone()
    found["host_ms"] = 1000 * min(alone() for _ in range(3)) / args.micros
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]) as seen:
        seconds = run()
    kernels = sorted(
        (one for one in seen.key_averages() if str(one.device_type).endswith("CUDA")),
        key=lambda one: -one.self_device_time_total,
    )
    found["busy"] = sum(one.self_device_time_total for one in kernels) / 1e6 / seconds
    if rank == 0:
        for one in kernels[:40]:
            share = one.self_device_time_total / 1000 / args.micros
            print(f"{share:9.3f} ms  {one.count / args.micros:7.1f} times  {one.key[:90]}")
        for name, microseconds in idle(seen).most_common(12):
            print(f"{microseconds / 1000 / args.micros:9.3f} ms  idle before  {name[:90]}")
        print(json.dumps(found))
        if args.out:
            args.out.write_text(json.dumps(found) + "\n")
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
