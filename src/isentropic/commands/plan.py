"""What a run takes, before anyone queues: `isentropic plan experiment=dapo_qwen2_5_32b trainer.devices=8`.

Memory per GPU, seconds of each phase, GPU-hours, and what does not fit. docs/plan.md says how it is reckoned.
"""

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

from isentropic.config.build import bad_input, build, is_dict, plain
from isentropic.config.compose import ROOT, compose, loader_of
from isentropic.config.entry import CONFIGS, main
from isentropic.config.parsed import Copies, copies

if TYPE_CHECKING:
    from isentropic.planning.architecture import Architecture
    from isentropic.planning.measured import Comparison
    from isentropic.planning.plan import Plan

READ = ("rollout", "policy", "trainer", "sampler", "task")
MEASURED = ROOT / "benchmarks" / "results" / "steps"  # by the benchmark, for docs/plan.md to compare with


@main("plan")
def plan(cfg: DictConfig) -> None:
    """Prints the plan and writes plan.json into the run's folder, or with table=docs/plan.md renews that page."""
    from isentropic.planning.plan import summary, text

    if cfg.table is not None:
        with bad_input("table"):
            file = Path(cfg.table)
            file.write_text(renewed(file.read_text(encoding="utf-8")), encoding="utf-8")
        return
    found = planned(cfg)
    (Path(cfg.paths.output) / "plan.json").write_text(json.dumps(summary(found), indent=1) + "\n", encoding="utf-8")
    print(text(found), flush=True)


def renewed(text: str) -> str:
    """docs/plan.md with its tables as they are now."""
    from isentropic.planning.page import page

    return page(text, of_preset, [comparison(file) for file in sorted(MEASURED.glob("*.json"))])


def comparison(file: Path) -> "Comparison":
    """What the benchmark found, beside the plan of the same settings."""
    from isentropic.planning.architecture import read
    from isentropic.planning.measured import Comparison

    found = json.loads(file.read_text(encoding="utf-8"))
    cfg = composed(f"card={found['planned']['card']}", name="benchmark")
    for part, settings in found["config"].items():
        OmegaConf.update(cfg, part, completed(settings, plain(cfg, part)), merge=False)
    return Comparison(file.stem, planned(cfg, read(found["model"]["name"], found["model"]["config"])), found)


def completed(then: Any, now: Any) -> Any:
    """Settings of an earlier run, with those of today that its parts did not have yet; a part may have moved since."""
    if not (is_dict(then) and is_dict(now)) or class_name(then) != class_name(now):
        return then
    new = {
        name: value for name, value in now.items() if "_target_" in then and (name not in then or name == "_target_")
    }
    return {name: completed(value, now.get(name)) for name, value in then.items()} | new


def class_name(part: dict[str, Any]) -> str:
    return str(part.get("_target_")).rpartition(".")[2]


def composed(*overrides: str, name: str = "plan") -> DictConfig:
    """One's own to change."""
    return once_composed(*overrides, name=name)()


@cache
def once_composed(*overrides: str, name: str) -> Copies:
    return copies(compose(loader_of(CONFIGS), name, [*overrides, "paths.output=."]))


def of_preset(preset: str, card: str, gpus: int, share: float | None) -> "Plan":
    """With `share` of the card for the engine, where it is not the preset's own."""
    cfg = composed(f"experiment={preset}", f"card={card}")
    OmegaConf.update(cfg, "trainer.num_nodes", gpus // cfg.trainer.devices)
    if share is not None:
        OmegaConf.update(cfg, "sampler.gpu_memory_utilization", share)
    return planned(cfg)


def planned(cfg: DictConfig, model: "Architecture | None" = None) -> "Plan":
    """Of the policy's model where no other is given.

    Raises BadInput for sizes that do not divide and models that are not known.
    """
    from isentropic.planning.advice import advice, quicker
    from isentropic.planning.architecture import architecture
    from isentropic.planning.duration import duration
    from isentropic.planning.memory import memory
    from isentropic.planning.micro_batch import with_micro_batch
    from isentropic.planning.plan import Plan
    from isentropic.planning.workload import as_read, workload

    if not cfg.lengths.get("observed"):
        cfg = copies(cfg)()
        OmegaConf.update(cfg, "lengths.observed", observed(cfg))
    card, lengths, algorithm = build(cfg, "card"), build(cfg, "lengths"), build(cfg, "algorithm")
    build(cfg, "policy.optimization")  # which checks its own sizes
    with bad_input():
        name = cfg.policy.model.path
        model = model or architecture(name, cfg.architectures)
        asked = workload({part: plain(cfg, part) for part in READ}, algorithm, lengths)
        work, notes = as_read(asked, model)
        work, chosen = with_micro_batch(model, work, card)
        held = memory(model, work, card)
        took = duration(model, work, card, held.cache)
        found = (model, work, card, held)
        return Plan(name, *found, took, notes + advice(*found), chosen + quicker(*found))


def observed(cfg: DictConfig) -> int:
    """Tokens that an answer is taken to read between its turns; of a task of one turn, none."""
    from isentropic.task.environment import Environment

    if not issubclass(get_class(cfg.task._target_), Environment):
        return 0
    return round(cfg.lengths.share * build(cfg, "rollout.turns").observed_at_most)


if __name__ == "__main__":
    plan()
