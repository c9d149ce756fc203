"""Completions of many lengths to one rectangle."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isentropic.batch import RolloutBatch
from isentropic.sampler import Completion, SamplerError
from isentropic.task import Verdict

PAD = 0  # any id does: nothing reads what lies beyond the mask


@dataclass(frozen=True)
class Segment:
    """Tokens of a row that stand together. Raises ValueError where they have not as many log-probs as tokens."""

    tokens: Sequence[int]
    logp: Sequence[float] | None  # by the sampler; None where it did not say, or did not write them
    chosen: bool  # whether the policy wrote them

    def __post_init__(self) -> None:
        if self.logp is not None and len(self.logp) != len(self.tokens):
            raise ValueError(
                f"the sampler gave {len(self.logp)} log-probs for {len(self.tokens)} tokens; each token has one"
            )


def collate(
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Completion],
    verdicts: Sequence[Verdict],
    groups: Sequence[int],
    problems: Sequence[int],
) -> RolloutBatch:
    """One row per completion: prompt, completion, padding. Masks follow lengths, never token ids.

    `groups` and `problems` are ids, of what was asked at one time and of what was asked.
    Raises ValueError where a completion has not as many log-probs as tokens.
    """
    rows = [
        [Segment(p, None, False), Segment(c.tokens, c.logp, True)] for p, c in zip(prompts, completions, strict=True)
    ]
    truncated = [c.finish == "length" for c in completions]
    return collate_segments(rows, verdicts, truncated, [False] * len(rows), [0] * len(rows), groups, problems)


def collate_segments(
    rows: Sequence[Sequence[Segment]],
    verdicts: Sequence[Verdict],
    truncated: Sequence[bool],
    void: Sequence[bool],
    calls: Sequence[int],
    groups: Sequence[int],
    problems: Sequence[int],
) -> RolloutBatch:
    """Rows of prompt, completion, observation, completion, and so on, padded to one width.

    Raises SamplerError where the sampler gave log-probs, none of which is a number.
    """
    blank = rectangle(rows)
    tokens, mask, turn, told = blank(np.int64), blank(np.bool_), blank(np.int64), blank(np.float32, nan)
    for place, row in enumerate(rows):
        end = begun = 0
        for part in row:
            start, end, begun = end, end + len(part.tokens), begun + part.chosen
            tokens[place, start:end], mask[place, start:end] = part.tokens, part.chosen
            turn[place, start:end] = max(0, begun - 1)
            if part.logp is not None:
                told[place, start:end] = part.logp
    logp = torch.from_numpy(told)
    check_told(logp, sum(len(part.logp or ()) for row in rows for part in row))
    return RolloutBatch(
        tokens=torch.from_numpy(tokens),
        mask=torch.from_numpy(mask),
        group=torch.tensor(groups),
        reward=torch.tensor([v.reward for v in verdicts], dtype=torch.float32),
        correct=torch.tensor([v.correct for v in verdicts]),
        truncated=torch.tensor(truncated),
        problem=torch.tensor(problems),
        sampler_logp=torch.where(logp.isfinite(), logp, nan),
        turn=torch.from_numpy(turn),  # of each token, how many completions began before its own or the one it follows
        void=torch.tensor(void),
        calls=torch.tensor(calls),
    )


def rectangle(rows: Sequence[Sequence[Segment]]) -> Callable[..., NDArray[Any]]:
    """As wide as the longest row, of a type, filled with padding or another value."""
    width = max(sum(len(part.tokens) for part in row) for row in rows)
    return lambda kind, value=PAD: np.full((len(rows), width), value, kind)


def check_told(logp: Tensor, told: int) -> None:
    """Warns of log-probs [B, S] that are no numbers, of `told` that the sampler gave; of others `logp` is NaN.

    Raises SamplerError where all are such.
    """
    lacking = told - int(logp.isfinite().sum())
    if lacking and lacking == told:
        raise SamplerError(
            f"the sampler gave no finite log-prob for any of {lacking} tokens: its weights or logits are inf or NaN"
        )
    if lacking:
        warnings.warn(
            "the sampler gave log-probs that are NaN or infinite, as engines do where the entropy is nearly 0; these "
            "tokens count as if it had not said, in sampler/ess and in what corrects for it",
            stacklevel=2,
        )


def concatenate(batches: Sequence[RolloutBatch]) -> RolloutBatch:
    """The rows of all, as wide as the widest; one batch alone is what it was."""
    if len(batches) == 1:
        return batches[0]
    width = max(b.tokens.shape[1] for b in batches)

    def join(name: str) -> Tensor:
        values = [getattr(b, name) for b in batches]
        if values[0].dim() == 1:
            return torch.cat(values)
        blank = nan if values[0].is_floating_point() else PAD
        return torch.cat([torch.nn.functional.pad(v, (0, width - v.shape[1]), value=blank) for v in values])

    return RolloutBatch(**{f.name: join(f.name) for f in fields(RolloutBatch)})
