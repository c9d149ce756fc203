"""Some groups of completions of each rollout, with all that is known of each token, to `samples.jsonl`."""

import json
import math
import re
import shutil
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.types import STEP_OUTPUT
from torch import Tensor

from isentropic.algorithm.algorithm import Algorithm
from isentropic.algorithm.trace import limits, weight
from isentropic.batch import Credit, Mask, PerToken, RolloutBatch, ScoredBatch
from isentropic.callbacks.run import policy_of, rollouts_of
from isentropic.policy.log_row import RolloutTrace
from isentropic.runs.files import SAMPLES

LIMITS = ("low", "high", "ceiling")  # of the importance ratio; other clippings have other numbers, or none


@runtime_checkable
class Tokenizer(Protocol):
    def decode(self, token_ids: list[int]) -> str | list[str]: ...


class Samples(Callback):
    """One completion per line, whole groups; the per-token lists run along the tokens the policy chose. Rank 0's only.

    `isentropic inspect` and the token page of a report read the file.
    """

    def __init__(self, groups: int, every: int) -> None:
        """`groups` of each `every`-th rollout, spread over it from its last, which was learnt from after the policy had
        moved. Raises ValueError below 1."""
        if groups < 1 or every < 1:
            raise ValueError(f"samples.groups={groups} and samples.every={every} must be at least 1")
        self.groups, self.every = groups, every

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            set_later_aside(Path(trainer.default_root_dir) / SAMPLES, policy_of(pl_module).rollouts)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: RolloutBatch, batch_idx: int
    ) -> None:
        policy = policy_of(pl_module)
        step = policy.rollouts
        if not trainer.is_global_zero or step % self.every:
            return
        whole, tokenizer = policy.last_rollout, rollouts_of(trainer).tokenizer
        assert whole
        groups = whole.batch.group.unique()
        rows = torch.isin(whole.batch.group, groups[torch.linspace(len(groups) - 1, 0, self.groups).long()])
        trace = rows_of(whole, rows)
        values = token_values(trace, policy.algorithm)
        with (Path(trainer.default_root_dir) / SAMPLES).open("a", encoding="utf-8") as file:
            for row in range(len(trace.batch.group)):
                line = {"step": step} | describe(row, trace.batch, values, tokenizer)
                file.write(json.dumps(line, ensure_ascii=False) + "\n")


def set_later_aside(file: Path, step: int) -> None:
    """Lines of rollouts that come anew go to `samples.1.jsonl`, or the next that is free."""
    if not file.exists():
        return
    with file.open("rb+") as lines:
        kept = 0  # bytes: steps only rise, so that what comes anew is at the end
        for line in lines:
            known = re.match(rb'\{"step": (\d+),', line)
            if not known or int(known[1]) > step or not line.endswith(b"\n"):
                break
            kept += len(line)
        if kept == file.stat().st_size:
            return
        lines.seek(kept)
        beyond = next(p for p in (file.with_name(f"samples.{i}.jsonl") for i in count(1)) if not p.exists())
        with beyond.open("wb") as aside:
            shutil.copyfileobj(lines, aside)
        lines.truncate(kept)


def rows_of(trace: RolloutTrace, rows: Tensor) -> RolloutTrace:
    return RolloutTrace(
        trace.batch[rows].to("cpu"),
        trace.credit[rows].to("cpu"),
        trace.now[rows].to("cpu"),
        trace.advantages[rows].cpu(),
        trace.drive,
        {name: tokens[rows].cpu() for name, tokens in trace.affected.items()},
    )


@dataclass(frozen=True)
class TokenValues:
    """What is written of the tokens of some rows."""

    values: dict[str, PerToken]
    limits: dict[str, PerToken]
    kept: Mask
    affected: dict[str, Mask]
    clipped: dict[str, Mask]


def token_values(trace: RolloutTrace, algorithm: Algorithm) -> TokenValues:
    batch, credit, now = trace.batch, trace.credit, trace.now
    ratio, bounds = algorithm.ratio_and_bounds(now, batch, credit, trace.drive)
    values = {
        "logp": batch.old_logp,
        "entropy": batch.old_entropy,
        "sensitivity": batch.old_sensitivity,
        "sampler_logp": batch.sampler_logp,
        "ref_logp": batch.ref_logp,
        "new_logp": now.logp,
        "new_entropy": now.entropy,
        "new_sensitivity": now.sensitivity,
        "estimate": trace.advantages,
        "advantages": credit.advantages,
        "weight": weight(Credit.initial(trace.advantages, batch.mask), credit),
        "ratio": ratio.expand_as(now.logp),
    }
    ends = {name: value for name, value in limits(bounds, now.logp).items() if name in LIMITS}
    clipped = {side: tokens & credit.mask for side, tokens in bounds.clipped(ratio, credit).items()}
    return TokenValues(values, ends, credit.mask, trace.affected, clipped)


def describe(row: int, batch: ScoredBatch, by_token: TokenValues, tokenizer: Tokenizer) -> dict[str, Any]:
    chosen = batch.mask[row]
    first = int(chosen.int().argmax())
    last = int(chosen.nonzero().max()) if chosen.any() else first - 1
    tokens = batch.tokens[row][chosen].tolist()

    def places(masks: dict[str, Mask]) -> dict[str, list[int]]:
        return {name: on[row][chosen].nonzero()[:, 0].tolist() for name, on in masks.items()}

    return {
        "prompt": decode(tokenizer, batch.tokens[row, :first].tolist()),
        "completion": decode(tokenizer, batch.tokens[row, first : last + 1].tolist()),
        "reward": number(batch.reward[row].item()),
        "correct": bool(batch.correct[row]),
        "truncated": bool(batch.truncated[row]),
        "group": int(batch.group[row]),
        "tokens": tokens,
        "texts": texts(tokens, tokenizer),
        **{name: numbers(value[row][chosen]) for name, value in by_token.values.items()},
        "kept": by_token.kept[row][chosen].tolist(),
        "limits": {name: one_or_all(numbers(value[row][chosen])) for name, value in by_token.limits.items()},
        "clipped": places(by_token.clipped),
        "touched": places(by_token.affected),
        **({"staleness": batch.staleness[row][chosen].tolist()} if batch.staleness[row].any() else {}),
        **between(batch.tokens[row, first : last + 1], chosen[first : last + 1], batch.turn[row][chosen], tokenizer),
    }


def between(tokens: Tensor, chosen: Tensor, turn: Tensor, tokenizer: Tokenizer) -> dict[str, Any]:
    """What was observed between turns; of an answer of one turn, nothing.

    `segments` are [start, stop, chosen] of the tokens after the prompt; `observed` are [place, text] of what stands
    before the chosen token of that place; `turn` is that of each chosen token.
    """
    if not turn.any():
        return {}
    edges = [0, *(chosen[1:] != chosen[:-1]).nonzero()[:, 0].add(1).tolist(), len(chosen)]
    segments = [[start, stop, bool(chosen[start])] for start, stop in pairwise(edges)]
    observed = [
        [int(chosen[:start].sum()), decode(tokenizer, tokens[start:stop].tolist())]
        for start, stop, own in segments
        if not own
    ]
    return {"turn": turn.tolist(), "segments": segments, "observed": observed}


def texts(tokens: list[int], tokenizer: Tokenizer) -> list[str]:
    """What each token adds to the text: nothing, while the character that it begins is not complete."""
    pieces: list[str] = []
    start, known = 0, ""  # a token is decoded with the one before it, since many tokenizers join words by a space
    for end in range(1, len(tokens) + 1):
        text = decode(tokenizer, tokens[start:end])
        if text.endswith("\ufffd") and end < len(tokens):
            pieces.append("")
            continue
        pieces.append(text[len(known) :])
        start, known = end - 1, decode(tokenizer, tokens[end - 1 : end])
    return pieces


def decode(tokenizer: Tokenizer, tokens: list[int]) -> str:
    return cast(str, tokenizer.decode(tokens))  # a list of texts only for a list of lists


def numbers(values: Tensor) -> list[float | None] | None:
    """Null for a list of which nothing is known."""
    return None if len(values) and values.isnan().all() else [number(value) for value in values.tolist()]


def one_or_all(values: list[float | None] | None) -> float | list[float | None] | None:
    return values[0] if values and len(set(values)) == 1 else values


def number(value: float) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return round(value, 6) if math.isfinite(value) else None
