"""Completions of many lengths to one rectangle."""

from collections.abc import Sequence
from dataclasses import fields
from math import nan

import torch
from torch import Tensor

from isentropic.batch import RolloutBatch
from isentropic.sampler import Completion
from isentropic.task import Verdict

PAD = 0  # any id does: nothing reads what lies beyond the mask


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
    rows = [[*p, *c.tokens] for p, c in zip(prompts, completions, strict=True)]
    width = max(map(len, rows))
    start = torch.tensor([len(p) for p in prompts])[:, None]
    stop = torch.tensor([len(r) for r in rows])[:, None]
    column = torch.arange(width)
    logps = [[nan] * len(p) + log_probs(c) for p, c in zip(prompts, completions, strict=True)]
    return RolloutBatch(
        tokens=torch.tensor([r + [PAD] * (width - len(r)) for r in rows]),
        mask=(column >= start) & (column < stop),
        group=torch.tensor(groups),
        reward=torch.tensor([v.reward for v in verdicts], dtype=torch.float32),
        correct=torch.tensor([v.correct for v in verdicts]),
        truncated=torch.tensor([c.finish == "length" for c in completions]),
        problem=torch.tensor(problems),
        sampler_logp=torch.tensor([r + [nan] * (width - len(r)) for r in logps]),
    )


def log_probs(completion: Completion) -> list[float]:
    if completion.logp is None:
        return [nan] * len(completion.tokens)
    if len(completion.logp) != len(completion.tokens):
        raise ValueError(
            f"the sampler gave {len(completion.logp)} log-probs for {len(completion.tokens)} tokens; each token has one"
        )
    return completion.logp


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
