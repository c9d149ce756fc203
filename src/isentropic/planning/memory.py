"""Bytes on one GPU, item by item, at the moments of a step when most is held."""

from dataclasses import dataclass

from isentropic.planning.architecture import Architecture
from isentropic.planning.card import Card
from isentropic.planning.workload import Engine, Workload

GIB = 2**30
FP32 = 4
# bytes that exist at one time for each number of a chunk's logits, counted in policy/logprobs.py
TRAINING, TRAINING_WITH_ENTROPY, READING = 14, 30, 24
TOKEN = 70  # bytes of a token of a rollout: its id, mask, and what is known and made of it, in fp32

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
    update, read = work.parts(work.mini), work.parts(work.rows)
    several = len(update) > 1
    held = kept(model, work)
    gradients = {"gradients": FP32 * model.parameters / work.shards}
    if work.shards > 1 and several and not work.sharded_gradients:
        gradients["gradients, whole until the last micro-batch"] = FP32 * model.parameters
    weights, cache = engine_bytes(model, work.engine, card)
    resident = {"engine, which does not sleep": weights + cache} if work.engine and not work.engine.sleeps else {}
    whole_tensor = (FP32 + 2) * model.head if work.shards > 1 else 2 * model.head
    temporary = FP32 * model.parameters if work.shards == 1 else 0.0  # torch steps plain tensors all together
    peaks = {
        "update": held | gradients | resident | passing(model, work, update, training=True),
        "optimizer step": held | gradients | resident | {"temporaries": temporary},
        "reading the rollout": held | resident | passing(model, work, read, training=False),
    }
    if work.engine:
        peaks["weight sync"] = held | {"engine weights": weights, "one tensor, whole": whole_tensor}
        peaks["rollout"] = held | {"engine weights": weights, "engine keys and values": cache}
    engines = weights if work.engine and work.engine.sleeps else 0.0
    whole = FP32 * model.parameters  # each rank reads the whole model before it keeps its part
    saved = 3 * whole  # and the first gathers weights and optimizer to save them
    host = min(card.gpus, work.ranks) * (whole + engines) + saved
    return Memory(peaks, (card.memory - card.context - card.spare) * GIB, cache, host)


def kept(model: Architecture, work: Workload) -> Items:
    """All the time, once the first update is done."""
    parameters = model.parameters / work.shards
    reference = {"frozen reference": FP32 * parameters} if work.reference else {}
    rollout = TOKEN * work.rows * (work.lengths.prompt + work.longest)
    return {"weights, fp32": FP32 * parameters, "AdamW": 2 * FP32 * parameters, "rollout": rollout} | reference


def passing(model: Architecture, work: Workload, parts: list[list[int]], training: bool) -> Items:
    """What a forward pass holds, and with `training` its backward pass."""
    tokens = max(len(part) * part[0] for part in parts)
    answers = max(sum(part) - len(part) * work.lengths.prompt for part in parts)
    per_logit = (TRAINING_WITH_ENTROPY if work.entropy_gradient else TRAINING) if training else READING
    layer, stream = activations(model, work), stream_size(work)
    items: Items = {"logits of a chunk": per_logit * model.vocabulary * min(work.chunk, answers)}
    items["states before the head"] = model.hidden * (tokens * (2 * stream + FP32) + answers * (stream + work.size))
    if not training:
        items["activations"] = tokens * layer  # of one layer
    elif work.checkpointing:
        items["activations"] = tokens * (model.layers * stream * model.hidden + layer + backward(model, work))
    else:
        items["activations"] = tokens * (model.layers * layer + backward(model, work))
    if work.shards > 1:
        items["gathered weights"] = work.size * (2 * model.layer + model.outside)
        if training:
            items["gradients on their way"] = (work.size + FP32) * max(model.layer, model.outside)
    elif work.size < FP32:
        items["weights in bf16"] = work.size * (model.layers * model.products + model.head)
        if training:
            items["gradients on their way"] = (work.size + FP32) * model.head
    elif training:
        items["gradients on their way"] = FP32 * model.head
    return items


def activations(model: Architecture, work: Workload) -> float:
    """Bytes that one layer keeps of a token for its backward pass.

    Each norm keeps what it was given and what it made of it, in fp32; each product its input, which without FSDP
    autocast copies from fp32 for each of them; attention its queries, keys, values and result; the MLP four of its
    width.
    """
    size = work.size
    per_hidden = 4 * FP32 + 5 * size if stream_size(work) > size else 2 * (FP32 + 2 * size)
    attention = size * (3 * model.queries + 2 * model.keys) + FP32 * model.heads
    if model.family == "qwen3":
        attention += (FP32 + size) * (model.queries + model.keys)
    return per_hidden * model.hidden + attention + 4 * size * model.intermediate


def backward(model: Architecture, work: Workload) -> float:
    """Bytes of a token's gradients inside a layer while it is gone through backwards."""
    return 3 * work.size * model.intermediate + 2 * stream_size(work) * model.hidden


def stream_size(work: Workload) -> int:
    """Bytes of a number between layers: without FSDP, the embedding stays in fp32."""
    return work.size if work.shards > 1 else FP32


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
