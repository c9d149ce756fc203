"""Seconds of each phase of a step, on the slowest rank."""

from dataclasses import dataclass
from itertools import chain

from isentropic.planning.architecture import Architecture
from isentropic.planning.card import Card
from isentropic.planning.memory import activations
from isentropic.planning.workload import Workload

FP32 = 4
# bytes moved for each number of the logits, by the elementwise operations of policy/logprobs.py
READING, TRAINING = 100, 80
PASSES_OF_ADAMW = 10  # over a tensor of the parameters' size: norm, clipping, two moments, weights


@dataclass(frozen=True)
class Duration:
    """Seconds, by phase."""

    phases: dict[str, float]
    evaluation: float
    sequences: float  # that the engine answers at one time
    model_flops: float  # 6 per parameter and token, of all updates of a rollout on this rank

    @property
    def step(self) -> float:
        return sum(self.phases.values())

    def run(self, work: Workload, card: Card) -> float:
        """The whole run."""
        return card.start + work.rollouts * self.step + work.evaluations * self.evaluation


def duration(model: Architecture, work: Workload, card: Card, cache: float) -> Duration:
    """`cache` is what the engine has for keys and values, in bytes."""
    answers = work.prompts_asked * work.group
    mini, rows = work.parts(work.mini), work.parts(work.rows)
    read = forward(model, work, card, rows)
    phases = {
        "rollout": rollout(model, work, card, cache, work.prompts_asked, answers, work.longest),
        "verification": answers * card.verify / work.verifiers,
        "old log-probs": read * (2 if work.reference else 1),
        "reading again": work.rereads * forward(model, work, card, mini),
        "update": work.updates * (backward(model, work, card, mini) + optimizer(model, work, card)),
        "weight sync": sync(model, work, card),
    }
    evaluation = rollout(model, work, card, cache, 0, work.judged, work.judged_longest)
    evaluation += work.judged * card.verify / work.verifiers
    flops = 6.0 * model.parameters * sum(chain.from_iterable(rows))
    return Duration(
        {name: seconds for name, seconds in phases.items() if seconds},
        evaluation,
        concurrency(model, work, cache, answers, work.longest),
        flops,
    )


def forward(model: Architecture, work: Workload, card: Card, parts: list[list[int]]) -> float:
    """Rows read without gradient."""
    seconds = 0.0
    for part in parts:
        body, head, logits = costs(model, work, part)
        flops = body + head
        moved = card.passes * model.layers * activations(model, work) * len(part) * part[0] + READING * logits
        busy = compute(work, card, flops, moved, model.layers)
        seconds += max(busy, gather(model, work, card))
    return seconds


def backward(model: Architecture, work: Workload, card: Card, parts: list[list[int]]) -> float:
    """Rows learnt from in one optimizer step. The head is always computed again, layers where they are checkpointed."""
    seconds = 0.0
    again = 1 if work.checkpointing else 0
    for index, part in enumerate(parts):
        body, head, logits = costs(model, work, part)
        layers = card.passes * model.layers * activations(model, work) * len(part) * part[0]
        moved = (3 + again) * layers + TRAINING * logits
        busy = compute(work, card, (3 + again) * body + 4 * head, moved, (3 + again) * model.layers)
        exchange = 2 * gather(model, work, card)
        if work.sharded_gradients or index == len(parts) - 1:
            exchange += wire(work, card, FP32 * model.parameters)
        seconds += max(busy, exchange)
    return seconds


def costs(model: Architecture, work: Workload, part: list[int]) -> tuple[float, float, float]:
    """Floating-point operations of a forward pass through the layers and the head, and numbers of logits."""
    padded = len(part) * part[0]
    answers = sum(part) - len(part) * work.lengths.prompt
    body = 2.0 * model.layers * model.products * padded + len(part) * model.attention(part[0])
    return body, 2.0 * model.head * answers, float(model.vocabulary) * answers


def compute(work: Workload, card: Card, flops: float, moved: float, layers: int) -> float:
    peak = card.flops if work.size < FP32 else card.flops_fp32
    busy = flops / (peak * card.product_share) + moved / (card.bandwidth * card.bandwidth_share)
    return max(busy, layers * card.launch)


def gather(model: Architecture, work: Workload, card: Card) -> float:
    return wire(work, card, work.size * model.parameters)


def wire(work: Workload, card: Card, whole: float) -> float:
    """A collective over the shards of so many bytes; none on a card alone."""
    rate = card.links if work.shards <= card.gpus else card.network
    return whole * (work.shards - 1) / work.shards / rate


def optimizer(model: Architecture, work: Workload, card: Card) -> float:
    moved = PASSES_OF_ADAMW * FP32 * model.parameters / work.shards
    return moved / (card.bandwidth * card.bandwidth_share)


def concurrency(model: Architecture, work: Workload, cache: float, answers: int, longest: int) -> float:
    """Answers written at one time: as many as there are, as the engine takes, and as its cache holds on average."""
    if work.engine is None or not answers:
        return 0.0
    held = work.lengths.prompt + work.lengths.square(longest) / (2 * work.lengths.mean(longest))
    return min(answers, work.engine.sequences, max(1.0, cache / (held * model.cache(work.engine.size))))


def rollout(
    model: Architecture, work: Workload, card: Card, cache: float, prompts: int, answers: int, longest: int
) -> float:
    """Prompts are read once per group; then a token at a time, until the last of the longest answer.

    A step reads all weights and what the cache holds, or computes, whichever takes longer, and costs the engine's own
    time besides.
    """
    engine = work.engine
    if engine is None or not answers:
        return 0.0
    peak = (card.flops if engine.size < FP32 else card.flops_fp32) * card.product_share * engine.ranks
    rate = card.bandwidth * card.bandwidth_share * engine.ranks
    answers, prompts = answers * engine.ranks, prompts * engine.ranks
    tokens = answers * work.lengths.mean(longest)
    at_once = concurrency(model, work, cache * engine.ranks, answers, longest)
    steps = tokens / at_once + longest - work.lengths.mean(longest)
    remembered = answers * (work.lengths.prompt * work.lengths.mean(longest) + work.lengths.square(longest) / 2)
    weights = steps * engine.size * model.parameters / rate
    products = 2.0 * model.parameters * tokens / peak
    prefill = 2.0 * model.parameters * prompts * work.lengths.prompt / peak
    keys = remembered * model.cache(engine.size) / rate
    own = card.step + (model.layers * card.launch if engine.eager else 0.0)
    return prefill + max(weights, products) + keys + steps * own + tokens * card.sequence


def sync(model: Architecture, work: Workload, card: Card) -> float:
    """Weights to the engine, tensor by tensor, and its going to sleep."""
    if work.engine is None:
        return 0.0
    tensors = model.tensors * (card.tensor_sharded if work.shards > 1 else card.tensor)
    asleep = work.engine.size * model.parameters / work.engine.ranks / card.sleep if work.engine.sleeps else 0.0
    return tensors + wire(work, card, FP32 * model.parameters) + asleep
