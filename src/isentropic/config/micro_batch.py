"""Tokens of a micro-batch where the settings leave them to the card: known before the first rollout, and said."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from isentropic.config.build import bad_input, build, plain
from isentropic.config.early import has_gpu
from isentropic.config.entry import CONFIGS, rank

if TYPE_CHECKING:
    from isentropic.algorithm.algorithm import Algorithm

PARTS = ("rollout", "policy", "trainer", "sampler", "task")
CARD = "h100"  # whose overheads are those of all cards; the memory is that of the one at hand


def choose_micro_batch(cfg: DictConfig, algorithm: "Algorithm") -> None:
    """Sets policy.optimization.max_tokens_per_micro_batch where it and micro_batch are null, and says why.

    Ranks whose cards are unlike may choose unlike: as many micro-batches as the most of them need go through each.
    """
    from isentropic.planning.micro_batch import USUAL, is_left_open

    optimization = cfg.policy.optimization
    if not is_left_open(optimization.micro_batch, optimization.max_tokens_per_micro_batch):
        return
    tokens, why = USUAL, "the usual number without a GPU"
    if cfg.trainer.accelerator != "cpu" and has_gpu():
        tokens, why = by_memory(cfg, algorithm)
    optimization.max_tokens_per_micro_batch = tokens
    if rank() == 0:
        print(f"policy.optimization.max_tokens_per_micro_batch={tokens}: {why}", flush=True)


def by_memory(cfg: DictConfig, algorithm: "Algorithm") -> tuple[int, str]:
    """Tokens, and why, in words. Raises BadInput for sizes that do not divide."""
    from torch import cuda

    from isentropic.planning.architecture import architecture
    from isentropic.planning.lengths import Lengths
    from isentropic.planning.micro_batch import USUAL, tokens_for
    from isentropic.planning.workload import as_read, workload

    try:
        model = architecture(cfg.policy.model.path, f"{cfg.paths.assets}/architectures.yaml")
    except ValueError:
        return USUAL, "the usual number, as plans know nothing of the memory of this model"
    free, whole = cuda.mem_get_info(int(os.environ.get("LOCAL_RANK", 0)))
    card = build(OmegaConf.create({"card": OmegaConf.load(CONFIGS / "card" / f"{CARD}.yaml")}), "card")
    settings = {part: plain(cfg, part) for part in PARTS}
    settings["rollout"]["evaluation"]["problems"] = 0
    if settings["trainer"]["devices"] == -1:
        settings["trainer"]["devices"] = cuda.device_count()
    with bad_input():
        work, _ = as_read(workload(settings, algorithm, Lengths(prompt=1, share=1.0, kept=1.0)), model)
        tokens = tokens_for(model, work, replace(card, memory=whole / 2**30), free)
    return tokens, f"as the card has {free / 2**30:.0f} of {whole / 2**30:.0f} GiB free"
