"""A policy small enough to differentiate by hand: one row of logits for each token before.

What the tests of all recipes share: rollouts, a step of the optimizer up to its gradient, and the settings at which a
recipe does what it is for. The processes of `ranks.py` import it too.
"""

import math
from copy import deepcopy
from dataclasses import fields, replace
from functools import cache

import torch

from isentropic.algorithm.advantage.grpo import Grpo
from isentropic.algorithm.aggregation.token_mean import TokenMean
from isentropic.algorithm.clipping.fixed import Fixed
from isentropic.algorithm.control.constant import Constant
from isentropic.algorithm.ratio.token import TokenRatio
from isentropic.batch import ScoredBatch, TokenStats, Vitals
from isentropic.distributed import average
from isentropic.policy.model.logprobs import entropy, sensitivity
from isentropic.reductions import masked_mean, totals

V, S = 7, 6
MIXED = (1, 0, 0, 0), (1, 1, 0, 0.5), (0, 1, 1, 1), (0, 0, 1, 1)
UNCLIPPED = Fixed(low=1.0, high=math.inf, ceiling=math.inf)

# Papers' numbers are for batches of thousands of tokens and policies that hardly move; these let sixteen answers do.
OPEN = "algorithm.control.target=10"
ENDS = "algorithm.control.upper_end=0.01", "algorithm.control.lower_end=0"
NARROW = ["algorithm.clipping.low=0.1", "algorithm.clipping.high=0.1"]
ACTING = {
    "clip_b": ["algorithm.credit.clip_b.mu=0.5"],
    "clip_cov": [
        "algorithm.clipping.high=0.2",
        "algorithm.credit.clip_cov.share=0.1",
        "algorithm.credit.clip_cov.lower=0",
    ],
    "clip_v": ["algorithm.credit.clip_v.mu=0.5", "algorithm.credit.clip_v.most=0.1"],
    "dr_grpo": ["algorithm.aggregation.length=6"],
    "entro_pic": ["algorithm.credit.entro_pic.threshold=0.3"],
    "entropy_bonus_adaptive": [OPEN, "algorithm.control.start=0.1"],
    "entropy_bonus_gated": [OPEN, "algorithm.penalty.entropy_bonus.weight=0.05"],
    "entrocraft": ["algorithm.control.upper_start=0.01", "algorithm.control.lower_start=0", *ENDS],
    "flexible_e1": NARROW,
    "flexible_e2": NARROW,
    "flexible_e3": NARROW,
    "flexible_e4": NARROW,
    "flexible_od": ["algorithm.control.start=1.5"],
    "grpo_s": ["algorithm.clipping.low=0.1", "algorithm.clipping.high=0.1"],  # means of ratios stray less
    "kl_cov": ["algorithm.credit.kl_cov.share=0.2"],
    "mai_thinking": [OPEN, "algorithm.clipping.low=0.1", "algorithm.control.step=0.1"],
    "stapo": ["algorithm.credit.stapo.probability=0.5"],
    "stapo_high": ["algorithm.credit.stapo_high.probability=0.5"],
    "stapo_random": ["algorithm.credit.stapo_random.probability=0.5"],
    "stapo_v1": ["algorithm.credit.stapo.probability=0.5"],
    "stare": [OPEN, "algorithm.credit.stare.boost=3"],
    "stare_c2": [OPEN, "algorithm.credit.stare.boost=3"],
    "stare_adaptive": [OPEN, "algorithm.credit.stare.boost=3"],
    "stare_c1": [OPEN, "algorithm.credit.stare.boost=3", "algorithm.credit.stare.bad_rest=3"],
    "stare_o2": [OPEN, "algorithm.credit.stare.bad_rest=3"],
    "stare_o3": [OPEN, "algorithm.credit.stare.good_rest=0.3"],
    "stare_o4": [OPEN, "algorithm.credit.stare.damp=0.3"],
}

# What a group of equal rewards does beside adding to the denominator, where it does more.
# No baseline: where wrong and right answers are moved, by the advantage; Entrocraft moves them by its credit rule.
PUSHED = {"nsr": (-1, 0), "psr": (0, 1), "w_reinforce": (-1, 1), "entrocraft": (0, 0)}
RANKED = ["clip_b", "clip_cov", "clip_v", "top_entropy"]  # its tokens move a threshold over all tokens
RECENTRED = ["reinforce_plus_plus", "reinforce_plus_plus_baseline"]  # its tokens move the mean over all tokens


def rollouts(seed=0, rewards=MIXED, lengths=(1, S), certain=0):
    """Groups of four answers by a policy that has moved since, with garbage in the padding: (policy, batch).

    After the first `certain` of the tokens only one token is possible, so the entropy there is exactly zero.
    """
    policy, batch = drawn(seed, rewards, lengths, certain)
    return policy.clone(), replace(batch, **{f.name: getattr(batch, f.name).clone() for f in fields(batch)})


@cache
def drawn(seed, rewards, lengths, certain):
    draw = torch.Generator().manual_seed(seed)
    reward = torch.tensor(rewards, dtype=torch.float32).flatten()
    rows = len(reward)
    start = torch.randn(V, V, generator=draw)
    move = torch.randn(V, V, generator=draw) * 0.3
    for token in range(certain):
        start[token, torch.arange(V) != token + 1] = -torch.inf
    tokens = torch.zeros(rows, S + 1, dtype=torch.long)  # the token before the first is 0
    for column in range(S):
        tokens[:, column + 1] = start.softmax(-1)[tokens[:, column]].multinomial(1, generator=draw)[:, 0]
    mask = torch.arange(S) < torch.randint(lengths[0], lengths[1] + 1, (rows, 1), generator=draw)
    group = torch.arange(rows) // len(rewards[0])
    nothing = torch.full((rows, S), torch.nan)
    batch = ScoredBatch(tokens[:, 1:], mask, group, reward, reward > 0, group < 0, *[nothing] * 5)
    old, reference = read(start, batch), read(start - move, batch)
    noise = torch.randn(rows, S, generator=draw) * 0.5
    noise[::2] = 0  # sampler and trainer agree on half of the answers
    return start + move, replace(
        batch,
        sampler_logp=old.logp + noise,
        old_logp=old.logp,
        old_entropy=old.entropy,
        old_sensitivity=old.sensitivity,
        ref_logp=reference.logp,
    )


def read(policy, batch, garbage=torch.nan):
    """What the policy thinks of each token, with garbage in the padding; gradients flow to it."""
    before = torch.where(batch.mask.roll(1, 1), batch.tokens.roll(1, 1), 0)
    before[:, 0] = 0
    logits = policy[before].log_softmax(-1).flatten(0, 1)
    logp = logits.gather(-1, batch.tokens.flatten()[:, None])[:, 0]
    h = entropy(logits)
    values = logp, h, sensitivity(logits.detach(), logp.detach(), h.detach())
    return TokenStats(*[x.view_as(batch.mask).masked_fill(~batch.mask, garbage) for x in values])


def seen_by_the_loss(algorithm, now):
    """As the policy module computes it: an entropy only where it is paid for."""
    wanted = any(penalty.needs_entropy for penalty in algorithm.penalty.values())
    unknown = torch.full_like(now.logp, torch.nan)
    return TokenStats(now.logp, now.entropy if wanted else unknown, unknown)


def driven(algorithm, batch):
    """What the controller asks for, a third of the way through training."""
    entropy = masked_mean(batch.old_entropy, batch.mask).item()
    return deepcopy(algorithm.control).update(Vitals(entropy=entropy, progress=0.3))


def assigned(algorithm, now, batch, drive, size=100):
    """The part of a step before its first micro-batch: (credit, totals, metrics)."""
    micro_batches = torch.arange(len(batch.reward)).split(size)
    credit, metrics = algorithm.assign(algorithm.advantage(batch), now, batch, drive, micro_batches)
    return credit, totals(credit.mask), metrics


def step(algorithm, policy, batch, size=100, garbage=torch.nan):
    """One optimizer step in micro-batches of `size` rows: gradient, loss, then metrics; the mean over ranks."""
    policy = policy.clone().requires_grad_()
    drive = driven(algorithm, batch)
    credit, counts, metrics = assigned(algorithm, read(policy, batch, garbage), batch, drive, size)
    cost = torch.zeros(())
    for start in range(0, len(batch.reward), size):
        rows = slice(start, start + size)
        now = seen_by_the_loss(algorithm, read(policy, batch[rows], garbage))
        loss, more = algorithm.loss(now, batch[rows], credit[rows], drive, counts)
        loss.backward()
        cost += loss.detach()
        metrics = metrics | {name: metrics.get(name, 0.0) + value for name, value in more.items()}
    values = torch.stack([torch.as_tensor(metrics[name]).float() for name in sorted(metrics)])
    return average(torch.cat([policy.grad.flatten(), cost[None], values]))


def gradient(algorithm, policy, batch, garbage=torch.nan, drive=None, now=None, size=100):
    """Of one step's loss at each token's log-prob and entropy, [2, B, S], and what the loss was divided by."""
    with torch.no_grad():
        now = now or read(policy, batch, garbage)
    drive = drive or driven(algorithm, batch)
    credit, counts, _ = assigned(algorithm, now, batch, drive, size)
    leaves = [x.clone().requires_grad_() for x in (now.logp, now.entropy)]
    seen = seen_by_the_loss(algorithm, TokenStats(*leaves, now.sensitivity))
    algorithm.loss(seen, batch, credit, drive, counts)[0].backward()
    by_tokens = isinstance(algorithm.aggregation, TokenMean)
    found = torch.stack([torch.zeros_like(x) if x.grad is None else x.grad for x in leaves])
    return found, counts.tokens if by_tokens else counts.sequences


def without(algorithm):
    """By part, the algorithm with the plainest one of its kind in its place."""
    others = {}
    for kind in "credit", "penalty":
        parts = getattr(algorithm, kind)
        for name in parts:
            others[name] = {kind: {k: part for k, part in parts.items() if k != name}}
    if algorithm.clipping != UNCLIPPED:
        others["clipping"] = {"clipping": UNCLIPPED}
    if not isinstance(algorithm.ratio, TokenRatio):
        others["ratio"] = {"ratio": TokenRatio()}
    if not isinstance(algorithm.advantage, Grpo):
        others["advantage"] = {"advantage": Grpo(divide_by_std=True)}
    parts = [algorithm.clipping, *algorithm.credit.values(), *algorithm.penalty.values()]
    if any(part.follows_drive for part in parts):
        others["control"] = {"control": Constant(up=0.0, down=0.0)}
    return {name: replace(algorithm, **changed) for name, changed in others.items()}


def padded(batch, before, after, garbage):
    """The same batch with columns of garbage on either side."""
    rows = len(batch.reward)
    fill = {torch.float32: garbage, torch.bool: False, torch.int64: 3}

    def columns(x, number):
        return torch.full((rows, number), fill[x.dtype], dtype=x.dtype)

    wide = {f.name: x for f in fields(batch) if (x := getattr(batch, f.name)).ndim == 2}
    return replace(batch, **{k: torch.cat([columns(x, before), x, columns(x, after)], 1) for k, x in wide.items()})


def holed(record, place, width, garbage):
    """The same batch or statistics with columns of garbage in their middle, as of a text between two turns."""
    fill = {torch.float32: garbage, torch.float64: garbage, torch.bool: False, torch.int64: 3}
    wide = {f.name: x for f in fields(record) if (x := getattr(record, f.name)).ndim == 2}
    hole = {name: torch.full((len(x), width), fill[x.dtype], dtype=x.dtype) for name, x in wide.items()}
    return replace(record, **{k: torch.cat([x[:, :place], hole[k], x[:, place:]], 1) for k, x in wide.items()})


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=0)


def all_close(expected, found):
    """Each of several (name, value) is as expected; names those that are not.

    What is found on the way is made without the checks of shapes, which `expected` was made with.
    """
    from fixtures.models import unchecked

    wrong = []
    with unchecked():
        for name, value in found:
            try:
                close(value, expected)
            except AssertionError as error:
                wrong.append(f"{name}: {error}")
    assert not wrong, "\n".join(wrong)
