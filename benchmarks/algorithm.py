"""How long the algorithm takes of a training step: every advantage estimator and every credit rule, from its YAML.

    python benchmarks/algorithm.py --device cpu --threads 2 --out benchmarks/results/cpu.json

Single calls, each waited for on a GPU: their median, and the least, which other work on the machine disturbs less.
verl's vectorised GRPO is called in turn with ours where the extra `peers` is installed. Needs no network.
"""

import argparse
import json
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
import yaml

from isentropic.batch import Credit, Drive, ScoredBatch, TokenStats

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "configs/algorithm"
PEERS = ROOT / "tests/algorithm/peers/conftest.py"
CHOSEN = {"clipping": "fixed"}  # by the recipe grpo
Timings = dict[str, dict[str, float]]
GROUP = 8  # answers to a prompt


def part(path: Path) -> Any:
    """What a config of a part describes, in the recipe grpo."""
    settings = settings_of(path)
    module, _, name = settings.pop("_target_").rpartition(".")
    return getattr(import_module(module), name)(**settings)


def settings_of(path: Path) -> dict[str, Any]:
    """Read without Hydra, of which a machine for measurements may have none."""
    own = yaml.safe_load(path.read_text())
    own = own.get(path.stem, own)
    for key, value in own.items():
        neighbour = re.match(r"\$\{(?:oc\.select:)?\.\.\.(\w+)\.(\w+)", str(value))
        if neighbour:
            seam, name = neighbour.groups()
            own[key] = settings_of(CONFIGS / seam / f"{CHOSEN[seam]}.yaml")[name]
    return own


def rollouts(rows: int, columns: int, device: str) -> tuple[ScoredBatch, TokenStats]:
    """Answers of a quarter of the columns to all of them, half of them right; the policy has moved a little."""
    draw = torch.Generator().manual_seed(0)
    shape = rows, columns
    mask = torch.arange(columns) < torch.randint(columns // 4, columns + 1, (rows, 1), generator=draw)
    reward = torch.randint(2, (rows,), generator=draw).float()
    old = torch.rand(shape, generator=draw).log()
    sampler, reference, now = [(old + torch.randn(shape, generator=draw) * 0.1).clamp(max=-1e-4) for _ in range(3)]
    entropy, sensitivity = torch.rand(shape, generator=draw) * 2, torch.randn(shape, generator=draw) * 0.1
    group = torch.arange(rows) // GROUP
    batch = ScoredBatch(
        torch.zeros(shape, dtype=torch.long), mask, group, reward, reward > 0, reward < 0, sampler, old, entropy,
        sensitivity, reference,
    )  # fmt: skip
    return batch.to(device), TokenStats(now, entropy, sensitivity).to(device)


def timed(calls: dict[str, Callable[[], object]], repeats: int, device: str) -> Timings:
    """Milliseconds of each call; they take turns, so that all see the same machine."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 3):  # the first three warm up
        for name, call in calls.items():
            wait(device)
            start = time.perf_counter()
            call()
            wait(device)
            if turn >= 3:
                seconds[name].append(time.perf_counter() - start)
    return {
        name: {"median": round(statistics.median(values) * 1e3, 3), "least": round(min(values) * 1e3, 3)}
        for name, values in seconds.items()
    }


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def verl(batch: ScoredBatch) -> Callable[[], object] | None:
    """verl's vectorised GRPO on the same rewards; None where verl is not installed."""
    if not (Path(sys.prefix) / "peers/verl").exists():
        return None
    spec = spec_from_file_location("peers", PEERS)
    assert spec and spec.loader
    peers = module_from_spec(spec)
    spec.loader.exec_module(peers)
    theirs = peers.peer("verl.trainer.ppo.core_algos", peers.VERL, ("verl",)).compute_grpo_vectorized_outcome_advantage
    rewards = torch.zeros_like(batch.old_logp)
    rewards[:, 0] = batch.reward
    mask, index = batch.mask.long(), batch.group.cpu().numpy()  # its trainer passes the attention mask
    return lambda: theirs(rewards, mask, index)


def advantages(rows: int, columns: int, repeats: int, device: str) -> Timings:
    batch, _ = rollouts(rows, columns, device)
    estimators = {path.stem: part(path) for path in sorted((CONFIGS / "advantage").glob("*.yaml"))}
    calls = {name: lambda estimator=estimator: estimator(batch) for name, estimator in estimators.items()}
    theirs = verl(batch)
    return timed(calls | ({"verl, vectorised GRPO": theirs} if theirs else {}), repeats, device)


def credit(rows: int, columns: int, repeats: int, device: str) -> Timings:
    batch, now = rollouts(rows, columns, device)
    worth = torch.where(batch.correct, 1.0, -1.0)[:, None].expand_as(batch.mask)
    start, drive = Credit.initial(torch.where(batch.mask, worth, 0), batch.mask), Drive(up=1.0, down=0.0)
    rules = {path.stem: part(path) for path in sorted((CONFIGS / "credit").glob("*.yaml"))}
    calls = {name: lambda rule=rule: rule(start, now, batch, drive) for name, rule in rules.items()}
    return timed(calls, repeats, device)


def machine(device: str, name: str | None) -> dict[str, Any]:
    name = name or (torch.cuda.get_device_name() if device == "cuda" else platform.processor())
    threads = {"threads": torch.get_num_threads()} if device == "cpu" else {}
    return {"name": name, "device": device, "torch": torch.__version__, "python": platform.python_version()} | threads


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=2, help="of torch, on the CPU")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--advantages", type=int, nargs=2, default=[1024, 512], metavar=("ROWS", "COLUMNS"))
    parser.add_argument("--credit", type=int, nargs=2, default=[512, 4096], metavar=("ROWS", "COLUMNS"))
    parser.add_argument("--machine", help="what the results call it")
    parser.add_argument("--out", type=Path, help="JSON file of the medians")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    with torch.no_grad():
        measured = {
            f"advantage, {options.advantages[0]} x {options.advantages[1]}": advantages(
                *options.advantages, options.repeats, options.device
            ),
            f"credit, {options.credit[0]} x {options.credit[1]}": credit(
                *options.credit, options.repeats, options.device
            ),
        }
    for title, timings in measured.items():
        print(f"\n{title + ' tokens, ms':<40}{'median':>10}{'least':>10}")
        for name, ms in timings.items():
            print(f"  {name:<38}{ms['median']:>10.3f}{ms['least']:>10.3f}")
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        result = {
            "machine": machine(options.device, options.machine),
            "repeats": options.repeats,
            "ms": measured,
        }
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
