"""Completions of many lengths to one rectangle."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import nan
from typing import TypeVar

import torch
from torch import Tensor

from isentropic.batch import RolloutBatch
from isentropic.sampler import Completion, SamplerError
from isentropic.task import Verdict

T = TypeVar("T")
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
    width = max(sum(len(part.tokens) for part in row) for row in rows)
    told = torch.tensor([padded(row, log_probs, nan, width) for row in rows])
    check_told(told, sum(len(part.logp or ()) for row in rows for part in row))
    return RolloutBatch(
        tokens=torch.tensor([padded(row, lambda part: part.tokens, PAD, width) for row in rows]),
        mask=torch.tensor([padded(row, lambda part: [part.chosen] * len(part.tokens), False, width) for row in rows]),
        group=torch.tensor(groups),
        reward=torch.tensor([v.reward for v in verdicts], dtype=torch.float32),
        correct=torch.tensor([v.correct for v in verdicts]),
        truncated=torch.tensor(truncated),
        problem=torch.tensor(problems),
        sampler_logp=torch.where(told.isfinite(), told, nan),
        turn=torch.tensor([turns(row, width) for row in rows]),
        void=torch.tensor(void),
        calls=torch.tensor(calls),
    )


def padded(row: Sequence[Segment], values: Callable[[Segment], Sequence[T]], blank: T, width: int) -> list[T]:
    """Values of a row's segments one behind the other, filled up with `blank` to `width`."""
    found = [value for part in row for value in values(part)]
    return found + [blank] * (width - len(found))


def log_probs(part: Segment) -> Sequence[float]:
    """Of the sampler, one per token; NaN where it did not say."""
    return [nan] * len(part.tokens) if part.logp is None else part.logp


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


def turns(row: Sequence[Segment], width: int) -> list[int]:
    """Of each token, how many completions began before the one that it is in or follows."""
    found: list[int] = []
    begun = 0
    for part in row:
        begun += part.chosen
        found += [max(0, begun - 1)] * len(part.tokens)
    return found + [PAD] * (width - len(found))


def concatenate(batches: Sequence[RolloutBatch]) -> RolloutBatch:
    """The rows of all, as wide as the widest."""
    width = max(b.tokens.shape[1] for b in batches)

    def join(name: str) -> Tensor:
        values = [getattr(b, name) for b in batches]
        if values[0].dim() == 1:
            return torch.cat(values)
        blank = nan if values[0].is_floating_point() else PAD
        return torch.cat([torch.nn.functional.pad(v, (0, width - v.shape[1]), value=blank) for v in values])

    return RolloutBatch(**{f.name: join(f.name) for f in fields(RolloutBatch)})
