"""Seconds of each phase of a step, on the slowest rank."""

from dataclasses import dataclass
from itertools import chain

from isentropic.planning.activations import layer
from isentropic.planning.architecture import Architecture
from isentropic.planning.card import Card
from isentropic.planning.decoding import concurrent_answers, rollout
from isentropic.planning.memory import trainable
from isentropic.planning.workload import FP32, Workload

# bytes for each number of the logits, by the kernels of fused_logprobs.py: measured, as they compute besides
READING, TRAINING = 5.4, 11.4
PASSES_OF_ADAMW = 10  # over a tensor of the parameters' size: norm, clipping, two moments, weights
RECOMPUTED_PRODUCTS = {"none": 0.0, "selective": 0.0, "full": 1.0}  # products of a layer in the backward pass
RECOMPUTED_REST = {"none": 0.0, "selective": 0.5, "full": 1.0}  # and what is between them

ROLLOUT_PHASES, TRAINING_PHASES = ("rollout", "verification"), ("old log-probs", "recomputed log-probs", "update")


@dataclass(frozen=True)
class Duration:
    """Seconds, by phase."""

    phases: dict[str, float]
    evaluation: float
    sequences: float  # that the engine answers at one time
    model_flops: float  # 6 per parameter and token, of all updates of a rollout on this rank
    hidden: float  # seconds of the phases in which another goes on as well

    @property
    def step(self) -> float:
        return sum(self.phases.values()) - self.hidden

    def run(self, work: Workload, card: Card) -> float:
        """The whole run."""
        return card.start + work.rollouts * self.step + work.evaluations * self.evaluation


def duration(model: Architecture, work: Workload, card: Card, cache: float) -> Duration:
    """`cache` is what the engine has for keys and values, in bytes."""
    answers = work.prompts_asked * work.group
    rows = work.micro_batches(work.rows, learns=False)
    grad, no_grad = work.micro_batches(work.mini_batch), work.micro_batches(work.mini_batch, learns=False)
    phases = {
        "rollout": rollout(model, work, card, cache, work.prompts_asked, answers, work.max_tokens),
        "verification": verification(work, card, answers),
        "sleep": offloaded_bytes(model, work) / card.sleep,
        "old log-probs": work.no_grad_passes * forward(model, work, card, rows),
        "recomputed log-probs": work.logp_recomputations * forward(model, work, card, no_grad),
        "update": work.updates * (backward(model, work, card, grad) + optimizer(model, work, card)),
        "weight sync": sync(model, work, card),
    }
    evaluation = rollout(model, work, card, cache, 0, work.eval_answers, work.eval_max_tokens)
    evaluation += verification(work, card, work.eval_answers)
    drawing, update_items = (sum(phases[name] for name in names) for names in (ROLLOUT_PHASES, TRAINING_PHASES))
    return Duration(
        {name: seconds for name, seconds in phases.items() if seconds},
        evaluation,
        concurrent_answers(model, work, cache, answers, work.max_tokens),
        6.0 * model.parameters * sum(chain.from_iterable(rows)),
        min(drawing, update_items) if work.one_step_off_policy else 0.0,
    )


def verification(work: Workload, card: Card, answers: int) -> float:
    return answers * card.verify / work.verifiers if work.verifiers else 0.0


def forward(model: Architecture, work: Workload, card: Card, parts: list[list[int]]) -> float:
    """Rows read without gradient."""
    seconds = 0.0 if work.shards > 1 else copies(model, work, card)
    for index, part in enumerate(parts):
        busy = body(model, work, card, part, 1, 1, 1) + head(model, work, card, part, 1, READING)
        seconds += beside(work, card, busy, gathered(model, work) if work.reshard_after_forward or index == 0 else 0.0)
    return seconds


def backward(model: Architecture, work: Workload, card: Card, parts: list[list[int]]) -> float:
    """Rows learnt from in one optimizer step, forwards and backwards."""
    seconds = 0.0 if work.shards > 1 else copies(model, work, card)
    own = trainable(model, work)
    again, refreshed = RECOMPUTED_PRODUCTS[work.checkpointing], RECOMPUTED_REST[work.checkpointing]
    weights = 0 if work.adapter else 1  # whose gradients are products too
    for index, part in enumerate(parts):
        answers = max(1, work.answer_tokens(part))
        kept = min(1.0, work.logits_chunk / answers + weights * model.hidden / (model.hidden + answers))
        busy = body(model, work, card, part, 2 + weights + again, 3.5 + again, 3 + refreshed)
        busy += head(model, work, card, part, 3 + weights - kept, TRAINING)
        exchange = gathered(model, work) * (2 if work.reshard_after_forward else int(index == 0))
        if work.shards == 1:  # gradients of the copies are added to those of the weights
            busy += (work.size + 2 * FP32) * own / (card.bandwidth * card.bandwidth_share)
        elif work.sharded_gradients or index == len(parts) - 1:
            exchange += FP32 * own
        seconds += beside(work, card, busy, exchange)
    return seconds


def body(
    model: Architecture, work: Workload, card: Card, part: list[int], products: float, attention: float, between: float
) -> float:
    """Layers, each of whose kinds of work is done so many times as in a forward pass."""
    tokens, peak = work.tokens(part), peak_of(work, card) * card.utilization(model.hidden)
    squares = sum(map(model.attention, part)) if work.packed else len(part) * model.attention(part[0])
    squares -= work.shared_prompts(part) * model.attention(work.lengths.prompt)
    busy = products * 2.0 * model.layers * model.products * tokens / (peak * card.product_share)
    busy += attention * squares / (peak * card.attention_share)
    passes = card.passes_fused if work.compiled else card.passes
    moved = between * passes * model.layers * layer(model, work) * tokens
    busy += moved / (card.bandwidth * card.bandwidth_share)
    launch = card.launch_fused if work.compiled else card.launch
    return max(busy, products * model.layers * launch)


def head(model: Architecture, work: Workload, card: Card, part: list[int], products: float, moved: float) -> float:
    answers = work.answer_tokens(part)
    peak = peak_of(work, card) * card.utilization(model.hidden)
    flops = products * 2.0 * model.head * answers / (peak * card.product_share)
    return flops + moved * model.vocabulary * answers / (card.bandwidth * card.bandwidth_share)


def peak_of(work: Workload, card: Card) -> float:
    return card.flops if work.size < FP32 else card.flops_fp32


def copies(model: Architecture, work: Workload, card: Card) -> float:
    """Weights are read in fp32 and written in the type of the products."""
    whole = (FP32 + work.size) * model.parameters if work.size < FP32 else 0.0
    return whole / (card.bandwidth * card.bandwidth_share)


def gathered(model: Architecture, work: Workload) -> float:
    """Bytes of a collective that makes the weights whole."""
    return work.size * model.parameters


def beside(work: Workload, card: Card, busy: float, whole: float) -> float:
    """Computing while a collective of so many bytes goes on. It takes from products what the wires of a node would
    take, as measured; for a slower network they wait."""
    return max(busy + over(work, whole, card.links), wire(work, card, whole))


def wire(work: Workload, card: Card, whole: float) -> float:
    """A collective over the shards of so many bytes; none on a card alone."""
    return over(work, whole, card.links if work.shards <= card.gpus else card.network)


def over(work: Workload, whole: float, rate: float) -> float:
    return whole * (work.shards - 1) / work.shards / rate


def optimizer(model: Architecture, work: Workload, card: Card) -> float:
    moved = PASSES_OF_ADAMW * FP32 * trainable(model, work) / work.shards
    return moved / (card.bandwidth * card.bandwidth_share)


def offloaded_bytes(model: Architecture, work: Workload) -> float:
    """Bytes of an engine's weights that wait in host memory."""
    engine = work.engine
    return engine.size * model.parameters / engine.ranks if engine and engine.sleep_level == 1 else 0.0


def sync(model: Architecture, work: Workload, card: Card) -> float:
    """The engine wakes up and takes all weights, tensor by tensor, and both sides score a fixed sequence.

    A tensor of several ranks is gathered, which takes as many turns as there are others on the node.
    """
    if work.engine is None:
        return 0.0
    others = min(work.shards, card.gpus) - 1
    tensors = model.tensors * (card.tensor_sharded * others if others else card.tensor)
    return (
        card.sync
        + tensors
        + wire(work, card, work.engine.size * model.parameters)
        + offloaded_bytes(model, work) / card.wake
    )
