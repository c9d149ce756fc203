"""Bytes on one GPU, item by item, at the moments of a step when most is held."""

from dataclasses import dataclass

from isentropic.planning.activations import backward_buffers, kept, layer
from isentropic.planning.architecture import Architecture
from isentropic.planning.card import Card
from isentropic.planning.workload import FP32, Engine, Workload

GIB = 2**30
TOKEN = 70  # bytes of a token of a rollout: its id, mask, and what is known and made of it, in fp32
BUCKET = 2**28  # bytes of weights that are gathered at once for the sampler

Items = dict[str, float]


@dataclass(frozen=True)
class Memory:
    """`peaks` name what is held at each moment; `room` is what the card has for tensors."""

    peaks: dict[str, Items]
    room: float
    cache: float  # of the engine, bytes of keys and values
    host: float  # of a node

    def peak(self, moment: str) -> float:
        return sum(self.peaks[moment].values())


def memory(model: Architecture, work: Workload, card: Card) -> Memory:
    update = work.micro_batches(work.mini_batch)
    held, several = static_items(model, work), len(update) > 1
    gradients = {"gradients": FP32 * trainable(model, work) / work.shards}
    if work.shards > 1 and several and not work.sharded_gradients:
        gradients["unsharded gradients, until the last micro-batch"] = FP32 * trainable(model, work)
    weights, cache = engine_bytes(model, work.engine, card)
    here = work.engine is not None and not work.engine.is_remote
    awake = here and work.engine is not None and not work.engine.sleep_level
    resident = {"engine, which does not sleep": weights + cache} if awake else {}
    peaks = {
        "update": held | gradients | resident | update_items(model, work, update),
        "optimizer step": held | gradients | resident,
    }
    if work.no_grad_passes or work.logp_recomputations:
        no_grad = no_grad_items(model, work, work.micro_batches(work.rows, learns=False))
        peaks["old log-probs"] = held | resident | no_grad
    if work.engine:
        whole = work.engine.size * model.head
        if work.shards > 1:  # and a rank's own part, cast, and once more as it is sent
            whole = max(2 * BUCKET, whole) * (1 + 2 / work.shards)
        own = {"engine weights": weights} if here else {}
        peaks["weight sync"] = held | own | {"weights being sent": whole}
        engine = {"engine weights": weights, "engine keys and values": cache}
        peaks["rollout"] = (held if here else {}) | engine | {"engine workspace": card.workspace * GIB}
    engines = weights if work.engine and work.engine.sleep_level == 1 else 0.0
    whole = FP32 * model.parameters
    loads = 0.0 if work.shards > 1 else whole  # where they share the model, ranks read their parts alone
    host = min(card.gpus, work.ranks) * (loads + engines) + 3 * whole  # the first gathers a checkpoint
    return Memory(peaks, (card.memory - card.overhead(work.shards) - card.fragmentation) * GIB, cache, host)


def trainable(model: Architecture, work: Workload) -> int:
    """Parameters that learn."""
    return model.parameters if work.adapter is None else model.adapters(work.adapter.rank, work.adapter.targets)


def frozen(model: Architecture, work: Workload) -> float:
    """Bytes of the weights beside which adapters learn."""
    return 0.0 if work.adapter is None else float(work.adapter.size * model.parameters)


def static_items(model: Architecture, work: Workload) -> Items:
    """All the time, once the first update is done."""
    own = trainable(model, work) / work.shards
    items: Items = {"weights, fp32": FP32 * own, "AdamW": 2 * FP32 * own}
    if work.adapter:
        items["frozen weights"] = frozen(model, work) / work.shards
    if work.reference_weights:
        items["frozen reference"] = FP32 * model.parameters / work.shards
    return items | {"rollout": TOKEN * work.rows * (work.lengths.prompt + work.lengths.observed + work.max_tokens)}


def update_items(model: Architecture, work: Workload, parts: list[list[int]]) -> Items:
    """At the head, where all layers are kept and logits too, or inside the last layer, whichever is more."""
    tokens, answers = max(map(work.tokens, parts)), max(map(work.answer_tokens, parts))
    items = compute_weights(model, work) | {"activations": model.layers * kept(model, work) * tokens}
    head = {"logits": logits(model, work, answers), "states of the head": states(model, work, answers)}
    tied = work.size * model.head if model.tied and work.adapter is None else 0.0
    if work.adapter is None:
        head["gradient of the head"] = work.size * model.head
    inside = {"a layer's backward pass": backward_buffers(model, work) * tokens}
    if tied and work.shards == 1:  # until the embedding's is added to it
        inside["gradient of the head"] = tied
    if work.shards > 1:
        items["gradients being reduced"] = (work.size + FP32) * max(model.layer, model.outside)
    return items | max(head, inside, key=lambda part: sum(part.values()))


def no_grad_items(model: Architecture, work: Workload, parts: list[list[int]]) -> Items:
    """Layers keep nothing; the last states are there while the head works."""
    tokens, answers = max(map(work.tokens, parts)), max(map(work.answer_tokens, parts))
    head = {"logits": logits(model, work, answers), "states of the head": states(model, work, answers)}
    inside = {"a layer": layer(model, work) * tokens}
    return compute_weights(model, work) | max(head, inside, key=lambda part: sum(part.values()))


def compute_weights(model: Architecture, work: Workload) -> Items:
    """Weights in the type of the products: if divided, two layers and what is outside at one time; else all of them."""
    if work.shards > 1 and not work.reshard_after_forward:
        return {"unsharded weights, until the last micro-batch": work.size * model.parameters}
    if work.shards > 1:
        return {"gathered weights": work.size * (2 * model.layer + model.outside)}
    kinds = [(model.parameters, FP32 if work.adapter is None else work.adapter.size)]
    kinds += [(trainable(model, work), FP32)] if work.adapter else []
    copies = sum(count for count, size in kinds if size != work.size)
    return {"weights in bf16": work.size * copies} if copies else {}


def logits(model: Architecture, work: Workload, answers: int) -> float:
    return work.size * model.vocabulary * min(work.logits_chunk, answers)


def states(model: Architecture, work: Workload, answers: int) -> float:
    """And their gradients, which add up in fp32."""
    return model.hidden * answers * (2 * work.size + FP32)


def engine_bytes(model: Architecture, engine: Engine | None, card: Card) -> tuple[float, float]:
    """Weights, and keys and values."""
    if engine is None:
        return 0.0, 0.0
    weights = engine.size * model.parameters / engine.ranks
    if engine.cache is not None:
        return weights, engine.cache * GIB
    if engine.share is None:
        return weights, engine.sequences * engine.context * model.cache(engine.size)
    step = 3 * FP32 * model.vocabulary * engine.sequences  # logits, and what they are sorted and sampled by
    return weights, max(0.0, engine.share * card.memory * GIB - weights - step)
