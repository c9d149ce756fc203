"""Some groups of completions of each rollout, with what every token was worth, to `samples.jsonl` in the run folder."""

import json
import math
import os
import re
from itertools import count
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from isentropic.types import Credit, ScoredBatch, TokenStats


class Samples(Callback):
    """One completion per line, whole groups; the per-token lists run along the tokens the policy chose. Rank 0's only.

    `isentropic.inspect` reads the file.
    """

    def __init__(self, groups: int, every: int) -> None:
        """`groups` of each `every`-th rollout, spread over it. Raises ValueError below 1."""
        if groups < 1 or every < 1:
            raise ValueError(f"samples.groups={groups} and samples.every={every} must be at least 1")
        self.groups, self.every = groups, every

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            go_on(Path(trainer.default_root_dir) / "samples.jsonl", int(pl_module.rollouts))  # pyright: ignore[reportArgumentType]

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step = int(pl_module.rollouts)  # pyright: ignore[reportArgumentType]
        if not trainer.is_global_zero or step % self.every:
            return
        scored, credit, now = seen(pl_module)
        tokenizer = trainer.datamodule.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
        groups = scored.group.unique()
        rows = torch.isin(scored.group, groups[torch.linspace(0, len(groups) - 1, self.groups).long()])
        scored, credit, now = scored[rows].to("cpu"), credit[rows].to("cpu"), now[rows].to("cpu")
        with (Path(trainer.default_root_dir) / "samples.jsonl").open("a", encoding="utf-8") as file:
            for row in range(len(scored.group)):
                file.write(json.dumps({"step": step} | describe(row, scored, credit, now, tokenizer)) + "\n")


def go_on(file: Path, step: int) -> None:
    """Lines of rollouts that come anew go to `samples.1.jsonl`, or the next that is free."""
    if not file.exists():
        return
    unfinished = file.with_name("samples.jsonl.unfinished")
    beyond = next(p for p in (file.with_name(f"samples.{i}.jsonl") for i in count(1)) if not p.exists())
    with file.open(encoding="utf-8") as old, unfinished.open("w", encoding="utf-8") as kept:
        for line in old:
            known = re.match(r'\{"step": (\d+),', line)
            if known and int(known[1]) <= step and line.endswith("\n"):
                kept.write(line)
            else:
                with beyond.open("a", encoding="utf-8") as aside:
                    aside.write(line)
    os.replace(unfinished, file) if beyond.exists() else unfinished.unlink()


def seen(module: Any) -> tuple[ScoredBatch, Credit, TokenStats]:
    return module.seen


def describe(row: int, scored: ScoredBatch, credit: Credit, now: TokenStats, tokenizer: Any) -> dict[str, Any]:
    chosen = scored.mask[row]
    first = int(chosen.int().argmax())
    tokens = scored.tokens[row][chosen].tolist()
    values = {
        "logp": scored.old_logp,
        "entropy": scored.old_entropy,
        "sensitivity": scored.old_sensitivity,
        "sampler_logp": scored.sampler_logp,
        "ref_logp": scored.ref_logp,
        "new_logp": now.logp,
        "new_entropy": now.entropy,
        "new_sensitivity": now.sensitivity,
        "advantages": credit.advantages,
    }
    return {
        "prompt": tokenizer.decode(scored.tokens[row, :first].tolist()),
        "completion": tokenizer.decode(tokens),
        "reward": number(scored.reward[row].item()),
        "correct": bool(scored.correct[row]),
        "truncated": bool(scored.truncated[row]),
        "group": int(scored.group[row]),
        "tokens": tokens,
        **{name: numbers(value[row][chosen]) for name, value in values.items()},
        "kept": credit.mask[row][chosen].tolist(),
    }


def numbers(values: Tensor) -> list[float | None] | None:
    """Null for a list of which nothing is known."""
    return None if len(values) and values.isnan().all() else [number(value) for value in values.tolist()]


def number(value: float) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return round(value, 6) if math.isfinite(value) else None
