"""Hidden states to log-prob and entropy of each target. The shift of logits to tokens exists only here."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from isentropic.batch import EntropyMode, Ids, Mask, PerTarget, PerToken

Head = nn.Linear | Callable[[Float[Tensor, "N D"]], Float[Tensor, "N V"]]  # states to logits


def token_stats(
    hidden: Float[Tensor, "B T D"],
    head: Head,
    tokens: Ids,
    mask: Mask,
    temperature: float,
    chunk: int,
    wanted: EntropyMode,
) -> tuple[PerToken, PerToken, PerToken]:
    """What `row_stats` makes of the masked tokens; zero elsewhere.

    `hidden` holds the states after tokens[:, :T]; the state at position t predicts the token at t + 1.
    """
    row, column = mask[:, 1 : hidden.shape[1] + 1].nonzero(as_tuple=True)
    values = row_stats(hidden[row, column], head, tokens[row, column + 1], temperature, chunk, wanted)
    logp, entropy, sensitivity = (value.new_zeros(mask.shape).index_put((row, column + 1), value) for value in values)
    return logp, entropy, sensitivity


def row_stats(
    states: Float[Tensor, "N D"],
    head: Head,
    targets: Int[Tensor, " N"],
    temperature: float,
    chunk: int,
    wanted: EntropyMode,
) -> tuple[PerTarget, PerTarget, PerTarget]:
    """Log-prob, entropy and sensitivity in fp32, of logits / temperature: a state and the token after it a row.

    No tensor of [rows, vocabulary] has more than `chunk` rows, and none is kept: the backward pass computes it again.
    On a GPU that many numbers are kept, and policy/model/fused_logprobs.py says what then happens to the rest.
    An entropy that is not wanted is NaN, and so is a sensitivity but beside an entropy's value.
    """
    if not isinstance(head, nn.Linear):
        parts = [
            kept_apart(head_stats)(part, head, target, temperature, wanted)
            for part, target in zip(states.split(chunk), targets.split(chunk), strict=True)
        ]
    elif states.is_cuda:
        from isentropic.policy.model.fused_logprobs import fused_stats  # only builds of torch for a GPU bring Triton

        return fused_stats(states, head, targets, temperature, chunk, wanted)
    else:
        parts = [
            kept_apart(logits_stats)(part, head.weight, head.bias, target, temperature, wanted)
            for part, target in zip(states.split(chunk), targets.split(chunk), strict=True)
        ]
    logp, entropy, sensitivity = (torch.cat(values) for values in zip(*parts, strict=True))
    return logp, entropy, sensitivity


def kept_apart(stats: Callable[..., Any]) -> Callable[..., Any]:
    """Kept logits would be the largest tensors of a step."""
    return partial(checkpoint, stats, use_reentrant=False) if torch.is_grad_enabled() else stats


def head_stats(
    states: Float[Tensor, "N D"], head: Head, targets: Int[Tensor, " N"], temperature: float, wanted: EntropyMode
) -> tuple[PerTarget, PerTarget, PerTarget]:
    """With a head that does more than a matrix product."""
    return stats_of(head(states), targets, temperature, wanted)


def logits_stats(
    states: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    temperature: float,
    wanted: EntropyMode,
) -> tuple[PerTarget, PerTarget, PerTarget]:
    """Log-prob, entropy and sensitivity of each target, from all logits at once; entropy in nats at the temperature."""
    return stats_of(linear(states, weight, bias), targets, temperature, wanted)


def stats_of(
    logits: Float[Tensor, "N V"], targets: Int[Tensor, " N"], temperature: float, wanted: EntropyMode
) -> tuple[PerTarget, PerTarget, PerTarget]:
    """As logits_stats, from logits, in fp32; NaN for what was not wanted. The sensitivity never has a gradient."""
    log_probs = (logits.float() / temperature).log_softmax(-1)
    logp = log_probs.gather(-1, targets[:, None])[:, 0]
    unknown = torch.full_like(logp, torch.nan)
    if wanted == "none":
        return logp, unknown, unknown
    if wanted == "gradient":
        return logp, entropy(log_probs), unknown
    uncertainty = entropy(log_probs.detach())
    return logp, uncertainty, sensitivity(log_probs.detach(), logp.detach(), uncertainty)


def entropy(log_probs: Float[Tensor, "N V"]) -> PerTarget:
    """Finite, in value and gradient, where a logit is minus infinity: an impossible token adds nothing."""
    possible = log_probs > float("-inf")
    return -(log_probs.exp() * torch.where(possible, log_probs, 0)).sum(-1)


def sensitivity(log_probs: Float[Tensor, "N V"], logp: PerTarget, entropy: PerTarget) -> PerTarget:
    """Minus the derivative of the entropy along one policy-gradient step on the logits. arXiv:2606.19236

    p (ln p + H) - sum_v p_v^2 (ln p_v + H), with p of the chosen token: positive where reinforcing it sharpens the
    policy, negative where it spreads it; its mean under the policy is 0.
    """
    possible = log_probs > float("-inf")
    everywhere = (2 * log_probs).exp() * torch.where(possible, log_probs + entropy[:, None], 0)
    chosen = torch.where(logp > float("-inf"), logp.exp() * (logp + entropy), 0)
    return chosen - everywhere.sum(-1)
