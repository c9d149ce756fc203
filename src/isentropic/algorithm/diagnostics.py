"""What an update does to entropy, in numbers: by the sign of the advantage and by surprisal; predicted, and measured.

One policy-gradient step that reinforces a token moves the entropy at its place by minus its sensitivity. To first order
(arXiv:2606.19236, whose names stand on the right), for tokens of

    positive_surprising   advantage > 0, surprisal > entropy    entropy rises    L+
    positive_expected     advantage > 0, surprisal <= entropy   entropy falls    U+
    negative_surprising   advantage < 0, surprisal > entropy    entropy falls    L-
    negative_expected     advantage < 0, surprisal <= entropy   entropy rises    U-
    neutral               advantage = 0                         entropy stays

As everywhere, metrics of an optimizer step add up over its micro-batches, and the mean over ranks is their value. What
is a mean over no token at all is left out.
"""

from math import isfinite, nan

import torch

from isentropic.batch import Credit, Mask, Metrics, PerToken, Scalar, ScoredBatch, Totals
from isentropic.distributed import average, largest
from isentropic.reductions import masked_mean, quantiles, share, totals

QUADRANTS = ("positive_surprising", "positive_expected", "negative_surprising", "negative_expected")
DECILES = range(10, 101, 10)  # percent of the tokens that are at most so uncertain
RAISED = "_raised"  # after the name of a rule: the share of tokens at which it pushed entropy up
TURNS = 4  # whose entropy is told
PREDICTED, SQUARE = "entropy/predicted_change", "ratio/mean_square"  # of a step; rows of metrics are made of them


def quadrants(advantages: PerToken, logp: PerToken, entropy: PerToken, mask: Mask) -> dict[str, Mask]:
    """The four sets, which share no token; a token whose entropy is not known is in none."""
    surprising, expected = mask & (-logp > entropy), mask & (-logp <= entropy)
    positive, negative = advantages > 0, advantages < 0
    sets = (surprising & positive, expected & positive, surprising & negative, expected & negative)
    return dict(zip(QUADRANTS, sets, strict=True))


def describe(batch: ScoredBatch, advantages: PerToken) -> dict[str, float]:
    """Of one rollout, before any update and before any credit rule; over the tokens of all ranks, which must all call.

    `entropy/mean` is the mean per response token, whatever the algorithm averages over; `entropy/q90` is what nine of
    ten of these tokens do not exceed.
    """
    sets = {"mean": batch.mask} | quadrants(advantages, batch.old_logp, batch.old_entropy, batch.mask)
    found = {f"entropy/{name}": masked_mean(batch.old_entropy, tokens) for name, tokens in sets.items()}
    sets["neutral"] = batch.mask & (advantages == 0)
    for name in (*QUADRANTS, "neutral"):
        found[f"entropy/{name}_share"] = masked_mean(sets[name].to(advantages.dtype), batch.mask)
    values = quantiles(batch.old_entropy, batch.mask, [percent / 100 for percent in DECILES])
    found |= {f"entropy/q{percent}": value for percent, value in zip(DECILES, values, strict=True)}
    right = batch.correct[:, None]
    found["advantage/correct"] = masked_mean(advantages, batch.mask & right)
    found["advantage/wrong"] = masked_mean(advantages, batch.mask & ~right)
    known = batch.mask & ~batch.sampler_logp.isnan()
    weight = importance(batch.old_logp - batch.sampler_logp, known)
    found["sampler/ess"] = masked_mean(weight, known) ** 2 / masked_mean(weight**2, known)
    found |= by_turn(batch)
    return {name: float(value) for name, value in found.items() if isfinite(value)}


def by_turn(batch: ScoredBatch) -> dict[str, Scalar]:
    """Entropy over the first turns, and of the first token chosen after each observation; of one turn, nothing."""
    sets = first_turns(batch)
    if not sets:
        return {}
    before = torch.nn.functional.pad(batch.mask, (1, 0))[:, :-1]
    sets["after_observation"] = batch.mask & ~before & (batch.turn > 0)
    return {f"entropy/{name}": masked_mean(batch.old_entropy, tokens) for name, tokens in sets.items()}


def first_turns(batch: ScoredBatch) -> dict[str, Mask]:
    """The chosen tokens of each, by name; nothing where no rank has a second one. All ranks must call."""
    turn = torch.where(batch.mask, batch.turn, 0)
    last = largest(int(turn.max()) if turn.numel() else 0)
    return {f"turn_{t}": batch.mask & (turn == t) for t in range(min(last + 1, TURNS))} if last else {}


def importance(log_weight: PerToken, mask: Mask) -> PerToken:
    """The ratio of a log-weight, held within exp(-20) and exp(20) to be finite in fp32, and 1 outside the mask."""
    return torch.where(mask, log_weight, 0).clamp(-20, 20).exp()


def affected(before: Credit, after: Credit) -> Mask:
    """The tokens that a rule scaled, dropped, or gave a kl_weight."""
    return (after.advantages != before.advantages) | (after.mask != before.mask) | (after.kl_weight != before.kl_weight)


def raised(before: Credit, after: Credit, sensitivity: PerToken) -> Mask:
    """The tokens at which what a rule did to the advantage pushes entropy up, by the sign of the sensitivity.

    Reinforcing a token by a little moves the entropy at its place by minus its sensitivity: a rule that only scales or
    drops is thus judged token by token. Of a kl_weight it is not said.
    """
    change = torch.where(after.mask, after.advantages, 0) - torch.where(before.mask, before.advantages, 0)
    return change * sensitivity < 0


def shares(tokens: Mask, sets: dict[str, Mask], mask: Mask) -> dict[str, Scalar]:
    """Of these tokens among all, under the name "", and among each set. All ranks must call."""
    return {name: share(tokens & among, totals(among)) for name, among in {"": mask, **sets}.items()}


def kept(credit: Credit, batch: ScoredBatch) -> Metrics:
    """The share of the step's tokens, over all ranks, that rules left in the divisor; and 1 where they left none."""
    left = masked_mean(credit.mask.float(), batch.mask)
    return {"policy/kept": left.nan_to_num(), "policy/empty": (left == 0).float()}


def micro_batch_metrics(
    loss: Scalar, logp: PerToken, batch: ScoredBatch, sensitivity: PerToken, credit: Credit, totals: Totals
) -> Metrics:
    """Moments of the importance ratio per token, and the predicted change of entropy.

    The gradient of the loss at a log-prob is -1/N of the advantage that the token has in effect, after credit rules,
    clipping, penalties on log-probs and aggregation, where N is what the loss is divided by. Times the sensitivity and
    summed, it is the mean over tokens of -advantage * sensitivity: nats of entropy per unit of a step on the logits. A
    penalty on the entropy itself is not in it.
    """
    (gradient,) = torch.autograd.grad(loss, logp, retain_graph=True)
    ratio = importance(logp.detach() - batch.old_logp, credit.mask)
    return {
        PREDICTED: torch.where(credit.mask, gradient * sensitivity, 0).sum(),
        "ratio/mean": torch.where(credit.mask, ratio, 0).sum() / totals.tokens,
        SQUARE: torch.where(credit.mask, ratio**2, 0).sum() / totals.tokens,
    }


def rollout_metrics(steps: list[Metrics]) -> dict[str, float]:
    """Means over ranks and optimizer steps; but the predicted changes of entropy add up. All ranks must call.

    `ratio/ess` is the effective sample size of the importance ratios of a step, as a share of its tokens. The precision
    of a rule is the share of the tokens it affected at which it pushed entropy up; none where it affected none.
    """
    names = sorted({name for step in steps for name in step})
    values = torch.tensor([[float(step.get(name, 0)) for name in names] for step in steps])
    values = average(values.flatten()).view_as(values)
    rows = [dict(zip(names, row, strict=True)) for row in values.tolist()]
    for row in rows:
        square = row.pop(SQUARE, nan)
        row["ratio/ess"] = row["ratio/mean"] ** 2 / square if square > 0 else nan
    result = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
    for name in [name for name in result if name.endswith(RAISED)]:
        up, touched = result.pop(name), result[name.removesuffix(RAISED)]
        result |= {name.removesuffix(RAISED) + "_precision": up / touched} if touched > 0 else {}
    return {name: value for name, value in result.items() if name != "ratio/ess" or isfinite(value)} | {
        PREDICTED: sum(row[PREDICTED] for row in rows)
    }
