"""Hidden states to the log-prob and entropy of each chosen token. The shift of logits to tokens exists only here."""

from functools import partial
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from isentropic.types import Ids, Mask, PerToken

Values = Float[Tensor, " N"]
Entropy = Literal["none", "value", "gradient"]  # what is made of it costs half as much again as the log-probs


def token_stats(
    hidden: Float[Tensor, "B T D"],
    head: torch.nn.Linear,
    tokens: Ids,
    mask: Mask,
    temperature: float,
    chunk: int,
    wanted: Entropy,
) -> tuple[PerToken, PerToken]:
    """Log-prob and entropy in nats, fp32, of logits / temperature at the masked tokens; zero elsewhere.

    `hidden` holds the states after tokens[:, :T]; the state at position t predicts the token at t + 1. No tensor of
    [rows, vocabulary] has more than `chunk` rows, and none is kept: the backward pass computes it again.
    An entropy that is not wanted is NaN.
    """
    chosen = mask[:, 1 : hidden.shape[1] + 1]
    row, column = chosen.nonzero(as_tuple=True)
    states, targets = hidden[row, column], tokens[row, column + 1]
    # kept logits would be the largest tensors of a step
    stats = partial(checkpoint, logits_stats, use_reentrant=False) if torch.is_grad_enabled() else logits_stats
    parts = [
        stats(part, head.weight, head.bias, target, temperature, wanted)
        for part, target in zip(states.split(chunk), targets.split(chunk), strict=True)
    ]
    logp, entropy = (torch.cat(values) for values in zip(*parts, strict=True))
    blank = logp.new_zeros(mask.shape)
    return blank.index_put((row, column + 1), logp), blank.index_put((row, column + 1), entropy)


def logits_stats(
    states: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    temperature: float,
    wanted: Entropy,
) -> tuple[Values, Values]:
    log_probs = (linear(states, weight, bias).float() / temperature).log_softmax(-1)
    logp = log_probs.gather(-1, targets[:, None])[:, 0]
    if wanted == "none":
        return logp, torch.full_like(logp, torch.nan)
    return logp, entropy(log_probs if wanted == "gradient" else log_probs.detach())


def entropy(log_probs: Float[Tensor, "N V"]) -> Values:
    """Finite, in value and gradient, where a logit is minus infinity: an impossible token adds nothing."""
    possible = log_probs > float("-inf")
    return -(log_probs.exp() * torch.where(possible, log_probs, 0)).sum(-1)
