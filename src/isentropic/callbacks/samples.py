"""Some completions of each rollout, with what every token was worth, to `samples.jsonl` in the run folder."""

import json
import math
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from isentropic.types import Credit, ScoredBatch


class Samples(Callback):
    """One JSON object per line; the per-token lists run along the tokens the policy chose. Rank 0's rows only."""

    def __init__(self, rows: int, every: int) -> None:
        """`rows` completions of each `every`-th rollout, spread over its groups. Raises ValueError below 1."""
        if rows < 1 or every < 1:
            raise ValueError(f"samples.rows={rows} and samples.every={every} must be at least 1")
        self.rows, self.every = rows, every

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step = int(pl_module.rollouts)  # pyright: ignore[reportArgumentType]
        if not trainer.is_global_zero or step % self.every:
            return
        scored, credit, tokenizer = seen(trainer, pl_module)
        chosen = torch.linspace(0, len(scored.tokens) - 1, self.rows).long().unique()
        scored, credit = scored[chosen].to("cpu"), credit[chosen].to("cpu")
        with (Path(trainer.default_root_dir) / "samples.jsonl").open("a", encoding="utf-8") as file:
            for row in range(len(chosen)):
                file.write(json.dumps({"step": step} | describe(row, scored, credit, tokenizer)) + "\n")


def seen(trainer: Trainer, module: Any) -> tuple[ScoredBatch, Credit, Any]:
    """What the last optimizer step learnt from, and how to read it."""
    scored, credit = module.seen
    return scored, credit, trainer.datamodule.tokenizer  # pyright: ignore[reportAttributeAccessIssue]


def describe(row: int, scored: ScoredBatch, credit: Credit, tokenizer: Any) -> dict[str, Any]:
    chosen = scored.mask[row]
    first = int(chosen.int().argmax())
    tokens = scored.tokens[row][chosen].tolist()
    return {
        "prompt": tokenizer.decode(scored.tokens[row, :first].tolist()),
        "completion": tokenizer.decode(tokens),
        "reward": number(scored.reward[row].item()),
        "correct": bool(scored.correct[row]),
        "truncated": bool(scored.truncated[row]),
        "group": int(scored.group[row]),
        "tokens": tokens,
        "logp": numbers(scored.old_logp[row][chosen]),
        "entropy": numbers(scored.old_entropy[row][chosen]),
        "advantages": numbers(credit.advantages[row][chosen]),
        "kept": credit.mask[row][chosen].tolist(),
    }


def numbers(values: Tensor) -> list[float | None]:
    return [number(value) for value in values.tolist()]


def number(value: float) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return round(value, 6) if math.isfinite(value) else None
