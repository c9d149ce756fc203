"""How fast is it here? `isentropic benchmark benchmark.model=1.5b --vs trl`: a run of random weights.

All that a run has, on made-up problems with answers of one length, or of mixed ones (`benchmark.lengths=long_cot`);
every setting of a run is a setting here. Prints and writes seconds by phase, tokens per second, MFU and memory, beside
what the plan says. docs/benchmark.md
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from omegaconf import DictConfig, OmegaConf

from isentropic.config.build import BadInput, bad_input, plain
from isentropic.config.compose import compose, loader_of
from isentropic.config.early import check_hardware
from isentropic.config.entry import CONFIGS, main, rank
from isentropic.config.process import task_overrides
from isentropic.runs.files import METRICS

if TYPE_CHECKING:
    from isentropic.benchmarking.lengths import MixedLengths

CONFIG = ("algorithm", "lengths", "policy", "rollout", "sampler", "task", "trainer")  # what a plan is made of


@main("benchmark")
def benchmark(cfg: DictConfig) -> None:
    """Raises BadInput for models that are not known, and for a peer that cannot run here."""
    check_hardware(cfg)
    found = {"overrides": task_overrides()} | (measured(cfg) if cfg.benchmark.vs is None else compared(cfg))
    if rank() == 0:
        from isentropic.benchmarking.table import text

        write(Path(cfg.benchmark.out), found)
        print(text(found), flush=True)


def write(out: Path, found: dict[str, Any]) -> None:
    with bad_input("benchmark.out"):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measured(cfg: DictConfig) -> dict[str, Any]:
    """Runs it, as train does. What it returns is for rank 0."""
    from isentropic.benchmarking import model
    from isentropic.train import parts

    with bad_input("benchmark.model"):
        model.write(Path(cfg.benchmark.folder), entry(cfg))
    lengths = mixed_lengths(cfg)
    with parts(cfg) as (trainer, policy, data):
        if lengths is not None:
            data.generator = replace(data.generator, limit=lengths)
        trainer.fit(policy, data)
        found: dict[str, Any] = {}
        if rank() == 0:
            found = report(cfg, trainer.world_size)
            write(Path(cfg.benchmark.out), found)
        trainer.strategy.barrier()  # a rank that fails while it ends takes the first with it
    return found


def mixed_lengths(cfg: DictConfig) -> "MixedLengths | None":
    """Those of benchmark.lengths, by which the plan expects answers too; None where all have one length."""
    from isentropic.benchmarking.lengths import mixed

    if cfg.benchmark.lengths is None:
        return None
    with bad_input("benchmark.lengths"):
        lengths = mixed(cfg.benchmark.lengths, cfg.paths.assets + "/lengths.yaml", cfg.benchmark.response_tokens)
    cfg.lengths.share = lengths.mean / lengths.longest
    return lengths


def entry(cfg: DictConfig) -> dict[str, Any]:
    """The model's config.json."""
    from isentropic.benchmarking.model import sizes

    known = cast(dict[str, Any], OmegaConf.to_container(cfg.benchmark.models))
    return sizes(cfg.benchmark.model, known, cfg.architectures)


def report(cfg: DictConfig, ranks: int) -> dict[str, Any]:
    from isentropic.benchmarking import figures
    from isentropic.planning.architecture import architecture

    card = card_here(cfg)
    sizes = figures.Shapes(**{name: cfg.benchmark[name] for name in figures.Shapes.__dataclass_fields__})
    lines = figures.rows(Path(cfg.paths.output) / METRICS)
    if cfg.benchmark.lengths is not None:
        sizes = replace(sizes, response_tokens=figures.later(lines, "rollout/length"))
    took = figures.seconds(lines)
    model = architecture(cfg.policy.model.path, cfg.architectures)
    found: dict[str, Any] = {
        "versions": versions(),
        "card": device_name(),
        "ranks": ranks,
        "model": {"name": cfg.benchmark.model, "parameters": model.parameters, "config": entry(cfg)},
        "shapes": vars(sizes),
        "config": {part: plain(cfg, part) for part in CONFIG},
        "seconds": took,
        "tokens_per_second_and_rank": figures.rates(sizes, took["median"], ranks),
        "memory": figures.memory(lines),
        "rollout": {name: figures.later(lines, name) for name in figures.ROLLOUT if name in lines[0]},
    }
    if card is not None:
        found["mfu"] = figures.mfu(model, sizes, took["median"], ranks, card.flops)
        found["planned"] = plan_of(cfg) | {"card": card.name.lower()}
    return found


def card_here(cfg: DictConfig) -> Any:
    """Sets cfg.card to the card of this machine, by name; None where no config tells of it."""
    options = loader_of(CONFIGS).get_group_options("card")
    here = [name for name in options if re.search(rf"\b{name}\b", device_name() or "", re.I)]
    if not here:
        return None
    cfg.card = compose(loader_of(CONFIGS), "plan", [f"card={here[0]}", "paths.output=."]).card
    return cfg.card


def plan_of(cfg: DictConfig) -> dict[str, Any]:
    from isentropic.commands.plan import planned
    from isentropic.planning.plan import summary

    plan = summary(planned(cfg))
    return {key: plan[key] for key in ("seconds", "step_seconds", "peaks", "memory", "mfu", "advice")}


def device_name() -> str | None:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def versions() -> dict[str, str | None]:
    from isentropic.runs import status

    return status.versions() | {"transformers": status.installed("transformers"), "python": sys.version.split()[0]}


def compared(cfg: DictConfig) -> dict[str, Any]:
    """Ours, then the peer, each in a process of its own, so that neither holds what the other needs."""
    from isentropic.benchmarking import peer, trl, verl

    name, peers = cfg.benchmark.vs, {"trl": trl, "verl": verl}
    if name not in peers:
        raise BadInput(f"benchmark.vs={name} must be trl, verl or null")
    if cfg.trainer.devices * cfg.trainer.num_nodes > 1:
        raise BadInput(f"benchmark.vs={name} compares on one GPU; trainer.devices={cfg.trainer.devices} must be 1")
    if reason := peer.missing(peers[name].REQUIREMENT):
        raise BadInput(reason)
    folder = Path(cfg.paths.output)
    ours, theirs = folder / "ours.json", folder / "peer.json"
    run(
        "isentropic.commands.benchmark",
        [*task_overrides(), "benchmark.vs=null", f"benchmark.out={ours}", f"hydra.run.dir={folder / 'ours'}"],
    )
    own = found = json.loads(ours.read_text(encoding="utf-8"))
    code = None
    try:
        code = ended(f"isentropic.benchmarking.{name}", peer_arguments(cfg, theirs))
    finally:  # it takes longer, and may be stopped, and this process with it
        found = own | peer.beside(own, theirs, code, name)
        write(Path(cfg.benchmark.out), found)
    if code and "ratio" not in found:
        raise BadInput(f"the peer ended with exit code {code} before its first rollout was learnt from")
    return found


def peer_arguments(cfg: DictConfig, out: Path) -> list[str]:
    b = cfg.benchmark
    sizes = ("prompts", "group_size", "prompt_tokens", "response_tokens", "updates")
    values = {name: b[name] for name in sizes} | {"folder": b.folder, "steps": b.vs_steps, "out": out}
    values |= {"vocabulary": cfg.task.vocabulary, "micro_batch": b.vs_micro_batch, "share": b.vs_share}
    return [text for name, value in values.items() for text in (f"--{name.replace('_', '-')}", str(value))]


def run(module: str, arguments: Sequence[str]) -> None:
    """Raises BadInput with its exit code; what went wrong it has said itself."""
    if code := ended(module, arguments):
        raise BadInput(f"python -m {module} ended with exit code {code}")


def ended(module: str, arguments: Sequence[str]) -> int:
    """Its exit code. All that it says is passed on as it is said."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    return subprocess.run([sys.executable, "-m", module, *arguments], env=environment).returncode


def with_flag(arguments: Sequence[str]) -> list[str]:
    """`--vs trl` and `--vs=trl` are short for benchmark.vs=trl."""
    text = [*arguments]
    for index, argument in enumerate(text):
        if argument == "--vs" and index + 1 < len(text):
            return [*text[:index], f"benchmark.vs={text[index + 1]}", *text[index + 2 :]]
        if argument.startswith("--vs="):
            return [*text[:index], f"benchmark.vs={argument.removeprefix('--vs=')}", *text[index + 1 :]]
    return text


if __name__ == "__main__":
    sys.argv[1:] = with_flag(sys.argv[1:])
    benchmark()
