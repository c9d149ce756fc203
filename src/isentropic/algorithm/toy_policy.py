"""A softmax policy small enough to be known exactly, under any algorithm: where entropy comes from, and where it goes.

A table of logits answers a few problems with a few tokens each, one place after another. An answer is right if the
tokens at the first places, which decide, are among a few good ones; at the others anything goes. Accuracy and entropy
are exact, and an update moves each place's logits alone, so first-order theory can be held against what happens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from isentropic.algorithm.algorithm import Algorithm
from isentropic.algorithm.diagnostics import PREDICTED, micro_batch_metrics, quadrants
from isentropic.batch import ScoredBatch, TokenStats, Vitals
from isentropic.reductions import totals

Logits = Float[Tensor, "problems places tokens"]


@dataclass(frozen=True)
class Puzzle:
    """The policy at the start, and which tokens are good."""

    logits: Logits
    good: Bool[Tensor, "problems places tokens"]

    @property
    def decides(self) -> Bool[Tensor, "problems places"]:
        """The places at which some token is wrong."""
        return ~self.good.all(-1)


@dataclass(frozen=True)
class History:
    """Before each rollout, and after the last; predicted and measured changes are of each rollout."""

    entropy: list[float]  # mean over all places, nats
    deciding: list[float]  # over those that decide
    free: list[float]  # over the others
    accuracy: list[float]
    ways: list[float]  # right answers in use: exp of the entropy among them, mean over problems
    predicted: list[float]  # first-order change of entropy, in nats
    logits: Logits  # at the end


def puzzle(problems: int, places: int, tokens: int, deciding: int, good: int, spread: float, seed: int) -> Puzzle:
    """`deciding` places with `good` good tokens each; logits are normal with this standard deviation."""
    draw = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(problems, places, tokens, generator=draw, dtype=torch.float64)
    order = torch.rand(problems, places, tokens, generator=draw).argsort(-1)
    free = (torch.arange(places) >= deciding)[None, :, None]
    return Puzzle(logits, (order < good) | free)


def entropy(logits: Float[Tensor, "*places tokens"]) -> Float[Tensor, "*places"]:
    """Shannon's, in nats, over the last axis; of logits at temperature 1."""
    log_probs = logits.log_softmax(-1)
    return -(log_probs.exp() * log_probs).sum(-1)


def sensitivity(logits: Float[Tensor, "*places tokens"]) -> Float[Tensor, "*places tokens"]:
    """Phi of each token: a step of size s on the logits along A times its log-prob changes the entropy by -s A Phi."""
    log_probs = logits.log_softmax(-1)
    pull = log_probs.exp() * (log_probs + entropy(logits)[..., None])
    return pull - (log_probs.exp() * pull).sum(-1, keepdim=True)


def change(logits: Float[Tensor, " tokens"], advantage: float, size: float) -> Float[Tensor, " tokens"]:
    """What one real policy-gradient step of this size on each token in turn does to the entropy."""
    steps = torch.eye(len(logits), dtype=logits.dtype) - logits.softmax(-1)
    return entropy(logits + size * advantage * steps) - entropy(logits)


def accuracy(puzzle: Puzzle, logits: Logits) -> float:
    """Exact share of right answers, 0 to 1, mean over problems."""
    return float((logits.softmax(-1) * puzzle.good).sum(-1).prod(-1).mean())


def ways(puzzle: Puzzle, logits: Logits) -> float:
    """Right answers in use: exp of the entropy among good tokens of places that decide, mean over problems."""
    right = entropy(logits.masked_fill(~puzzle.good, -1e9))
    return float(torch.where(puzzle.decides, right, 0).sum(-1).exp().mean())


def rollout(puzzle: Puzzle, logits: Logits, group: int, draw: torch.Generator) -> ScoredBatch:
    """`group` answers to each problem."""
    problems, places, _ = logits.shape
    chosen = torch.multinomial(logits.softmax(-1).flatten(0, 1), group, replacement=True, generator=draw)
    tokens = chosen.view(problems, places, group).transpose(1, 2).flatten(0, 1)
    problem = torch.arange(problems).repeat_interleave(group)
    correct = puzzle.good[problem].gather(-1, tokens[..., None])[..., 0].all(-1)
    found = read(logits, problem, tokens)
    return ScoredBatch(
        tokens=tokens,
        mask=torch.ones_like(tokens, dtype=torch.bool),
        group=problem,
        reward=correct.to(logits.dtype),
        correct=correct,
        truncated=torch.zeros_like(correct),
        sampler_logp=found.logp,
        old_logp=found.logp,
        old_entropy=found.entropy,
        old_sensitivity=found.sensitivity,
        ref_logp=torch.full_like(found.logp, nan),
    )


def read(logits: Logits, problem: Tensor, tokens: Tensor) -> TokenStats:
    """Exact log-prob, entropy and sensitivity of answers: `problem` is [answers], `tokens` [answers, places]."""

    def at(values: Tensor) -> Tensor:
        return values[problem].gather(-1, tokens[..., None])[..., 0]

    return TokenStats(at(logits.log_softmax(-1)), entropy(logits)[problem], at(sensitivity(logits)))


def train(
    puzzle: Puzzle, algorithm: Algorithm, rollouts: int, group: int, updates: int, lr: float, seed: int
) -> History:
    """Gradient descent on the logits by the algorithm's own loss, `updates` steps per rollout. Moves its controller."""
    draw = torch.Generator().manual_seed(seed)
    logits, rows, predicted = puzzle.logits, list[list[float]](), list[float]()
    for index in range(rollouts):
        rows.append(measurements(puzzle, logits))
        batch = rollout(puzzle, logits, group, draw)
        drive = algorithm.control.update(Vitals(float(batch.old_entropy.mean()), index / rollouts))
        advantages, moved = algorithm.advantage(batch), 0.0
        for part in torch.randperm(len(batch.tokens), generator=draw).tensor_split(updates):
            leaf, mini = logits.clone().requires_grad_(), batch[part]
            now = read(leaf, mini.group, mini.tokens)
            still = TokenStats(now.logp.detach(), now.entropy.detach(), now.sensitivity.detach())
            credit, _ = algorithm.assign(advantages[part], still, mini, drive, [torch.arange(len(part))])
            count = totals(credit.mask)
            loss, _ = algorithm.loss(now, mini, credit, drive, count)
            moved += float(micro_batch_metrics(loss, now.logp, mini, still.sensitivity, credit, count)[PREDICTED])
            loss.backward()
            assert leaf.grad is not None
            logits = logits - lr * leaf.grad
        predicted.append(moved * lr / logits[..., 0].numel())  # a step of the rate on the sum over all places
    rows.append(measurements(puzzle, logits))
    return History(*(list(values) for values in zip(*rows, strict=True)), predicted=predicted, logits=logits)


def measurements(puzzle: Puzzle, logits: Logits) -> list[float]:
    """Entropy in nats of all places, of those that decide, of the others; accuracy; ways. As in History."""
    nats = entropy(logits)
    parts = nats.mean(), nats[puzzle.decides].mean(), nats[~puzzle.decides].mean()
    return [*map(float, parts), accuracy(puzzle, logits), ways(puzzle, logits)]


def contributions(batch: ScoredBatch, advantages: Tensor) -> dict[str, tuple[float, float]]:
    """By set of tokens: its share, and its part of the mean over tokens of -A Phi. A is [answers, places]."""
    sets = quadrants(advantages, batch.old_logp, batch.old_entropy, batch.mask)
    effect = -advantages * batch.old_sensitivity
    return {name: (float(tokens.double().mean()), float((effect * tokens).mean())) for name, tokens in sets.items()}


def mean_over(histories: Sequence[History], name: str) -> Tensor:
    """One quantity over runs of different seeds, [rollouts + 1] as History has it, or [rollouts]."""
    values: list[Any] = [getattr(history, name) for history in histories]
    return torch.tensor(values, dtype=torch.float64).mean(0)
