"""What a run takes, before anyone queues: `python -m isentropic.plan experiment=dapo_qwen2_5_32b trainer.devices=8`.

Memory per GPU, seconds of each phase, GPU-hours, and what does not fit. docs/plan.md says how it is reckoned.
"""

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from isentropic.build import bad_input, build, plain
from isentropic.compose import compose, loader_of
from isentropic.entry import CONFIGS, main

if TYPE_CHECKING:
    from isentropic.planning.plan import Plan

READ = ("rollout", "policy", "trainer", "sampler", "task")


# measured runs, which docs/plan.md compares with
SMOLLM = "experiment=smollm2_chain_sum", "lengths.share=0.45", "lengths.prompt=250"
ENGINE = (
    "policy=qwen2_5_1_5b", "trainer=gpu", "rollout.size=512", "rollout.group=8", "rollout.decoding.max_tokens=1024",
    "lengths.share=1", "lengths.prompt=128", "sampler.dtype=bfloat16", "sampler.max_model_len=1152",
    "sampler.max_num_seqs=512", "sampler.kv_cache_gib=null", "sampler.gpu_memory_utilization=0.5",
    "sampler.enforce_eager=false",
)  # fmt: skip


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

    return page(text, of_preset, planned(composed(*SMOLLM)), planned(composed(*ENGINE)))


@cache
def composed(*overrides: str) -> DictConfig:
    return compose(loader_of(CONFIGS), "plan", [*overrides, "paths.output=."])


def of_preset(preset: str, card: str, gpus: int, share: float | None) -> "Plan":
    """With `share` of the card for the engine, where it is not the preset's own."""
    cfg = composed(f"experiment={preset}", f"card={card}").copy()
    OmegaConf.update(cfg, "trainer.num_nodes", gpus // cfg.trainer.devices)
    if share is not None:
        OmegaConf.update(cfg, "sampler.gpu_memory_utilization", share)
    return planned(cfg)


def planned(cfg: DictConfig) -> "Plan":
    """Raises BadInput for sizes that do not divide and models that are not known."""
    from isentropic.planning.advice import advice
    from isentropic.planning.architecture import architecture
    from isentropic.planning.duration import duration
    from isentropic.planning.memory import memory
    from isentropic.planning.plan import Plan
    from isentropic.planning.workload import workload

    card, lengths, algorithm = build(cfg, "card"), build(cfg, "lengths"), build(cfg, "algorithm")
    build(cfg, "policy.optimization")  # which checks its own sizes
    with bad_input():
        name = cfg.policy.model.path
        model = architecture(name, cfg.architectures)
        work = workload({part: plain(cfg, part) for part in READ}, algorithm, lengths)
        held = memory(model, work, card)
        took = duration(model, work, card, held.cache)
        return Plan(name, model, work, card, held, took, advice(model, work, card, held))


if __name__ == "__main__":
    plan()
