"""What does not fit, and what would; and what would be quicker: a sentence each."""

from collections.abc import Iterator
from dataclasses import replace
from math import floor

from isentropic.planning.architecture import Architecture
from isentropic.planning.card import Card
from isentropic.planning.decoding import concurrent_answers, ranks_per_engine
from isentropic.planning.duration import backward
from isentropic.planning.memory import GIB, Memory, engine_bytes, memory
from isentropic.planning.workload import Workload

# what to do about an item of memory, if it is the one that stands out
REMEDIES = {
    "activations": "{activations}",
    "logits": "lower policy.model.logits_chunk={chunk}",
    "a layer": "lower policy.optimization.max_tokens_no_grad={read}",
    "a layer's backward pass": "{activations}",
    "unsharded gradients, until the last micro-batch": "take policy.optimization.sharded_gradients=true",
    "unsharded weights, until the last micro-batch": "take policy.optimization.reshard_after_forward=true",
    "engine, which does not sleep": "take sampler.sleep_level=2",
    "engine keys and values": "{cache}",
    "engine weights": "{cache}",
}


def advice(model: Architecture, work: Workload, card: Card, held: Memory) -> list[str]:
    """Empty where all is well."""
    parts = (
        memory_advice(model, work, card, held),
        engine_advice(model, work, card, held),
        host_advice(work, card, held),
    )
    return [sentence for part in parts for sentence in part]


def quicker(model: Architecture, work: Workload, card: Card, held: Memory) -> list[str]:
    """Empty where nothing that fits is worth a twentieth of an update."""
    settings = {"reshard_after_forward": work.reshard_after_forward, "sharded_gradients": work.sharded_gradients}
    changes = [{name: False for name in names} for names in (list(settings), *([name] for name in settings))]
    parts = work.micro_batches(work.mini_batch)
    now, found = backward(model, work, card, parts), dict[float, str]()
    for change in changes if work.shards > 1 and len(parts) > 1 else []:
        other = replace(work, **change)
        saved, then = now - backward(model, other, card, parts), memory(model, other, card)
        more = (then.peak("update") - held.peak("update")) / GIB
        if saved > 0.05 * now and then.peak("update") <= then.room:
            words = " and ".join(f"policy.optimization.{name}=false" for name in change)
            found[saved] = f"quicker: {words} would save {saved / now:.0%} of an update's time for {more:.0f} GiB more"
    return [found[max(found)]] if found else []


def memory_advice(model: Architecture, work: Workload, card: Card, held: Memory) -> Iterator[str]:
    for moment, items in held.peaks.items():
        over = held.peak(moment) - held.room
        if over <= 0:
            continue
        largest = max(REMEDIES.keys() & items.keys(), key=lambda item: items[item], default="")
        static = sum(size for item, size in items.items() if item not in REMEDIES)
        remedy = REMEDIES.get(largest, "").format(
            activations=fewer_activations(work),
            chunk=work.logits_chunk,
            read=work.max_tokens_no_grad or work.max_tokens_per_micro_batch,
            cache=less_cache(model, work, card, over),
        )
        if static > held.room or not remedy:
            remedy = more_cards(work)
        yield (
            f"{moment}: {held.peak(moment) / GIB:.0f} GiB are {over / GIB:.0f} more than the {held.room / GIB:.0f} "
            f"that {card.name} has for them, most of all {name_of_largest(items)}; {remedy}"
        )


def fewer_activations(work: Workload) -> str:
    if max(map(len, work.micro_batches(work.mini_batch))) > 1:
        return "lower policy.optimization.max_tokens_per_micro_batch or micro_batch"
    if work.checkpointing != "full":
        return "take policy.model.activation_checkpointing=full"
    return f"lower rollout.decoding.max_tokens={work.max_tokens}, as one answer alone takes this much"


def less_cache(model: Architecture, work: Workload, card: Card, over: float) -> str:
    """The engine may have less memory, as long as one answer fits."""
    share = fitting_share(model, work, card, over)
    if share is not None:
        return f"lower sampler.gpu_memory_utilization to {share:.2f}"
    if work.engine and work.engine.cache is not None and over < work.engine.cache * GIB:
        return f"lower sampler.kv_cache_gib to {work.engine.cache - over / GIB:.1f}"
    return "take cards with more memory, as each GPU has a whole engine"


def fitting_share(model: Architecture, work: Workload, card: Card, over: float) -> float | None:
    """Of the card, for an engine that now takes `over` bytes too much; None where it cannot do with less."""
    if work.engine is None or work.engine.share is None or work.engine.cache is not None:
        return None
    share = floor(100 * (work.engine.share - over / GIB / card.memory)) / 100
    _, cache = engine_bytes(model, replace(work.engine, share=share), card)
    return share if cache * work.engine.ranks >= work.engine.context * model.cache(work.engine.size) else None


def more_cards(work: Workload) -> str:
    if work.shards == 1:
        return "divide the model over several GPUs with trainer=fsdp, or take bigger cards"
    return f"divide the model over more than {work.shards} GPUs, or take bigger cards"


def name_of_largest(items: dict[str, float]) -> str:
    name = max(items, key=lambda item: items[item])
    return f"{name} ({items[name] / GIB:.0f})"


def engine_advice(model: Architecture, work: Workload, card: Card, held: Memory) -> Iterator[str]:
    if work.engine is None:
        return
    longest = max(work.max_tokens, work.eval_max_tokens)
    if longest >= work.engine.context:
        yield (
            f"sampler.max_model_len={work.engine.context} leaves no prompt before the longest answer, of {longest} "
            "tokens; raise it"
        )
    if work.engine.context > model.context:
        yield (
            f"sampler.max_model_len={work.engine.context} is more than the {model.context} tokens that the model "
            "reads; lower it, and max_tokens with it"
        )
    one = work.engine.context * model.cache(work.engine.size)
    free = held.room - held.peak("rollout")
    asked = work.prompts_asked * work.group
    at_once = concurrent_answers(model, work, held.cache, asked, work.max_tokens)
    wanted = min(asked * ranks_per_engine(work, work.engine), work.engine.sequences)
    if work.engine.share is not None and work.engine.cache is None and at_once < wanted and free > 0.1 * held.room:
        yield (
            f"each engine answers {at_once:.0f} of {wanted} at one time for want of memory, of which {free / GIB:.0f} "
            f"GiB are free while it does; raise sampler.gpu_memory_utilization={work.engine.share:g} by up to "
            f"{free / GIB / card.memory:.2f}"
        )
    if held.cache * work.engine.ranks < one:
        yield (
            f"the engine's {held.cache / GIB:.1f} GiB for keys and values do not hold one answer of "
            f"{work.engine.context} tokens, which takes {one / GIB:.1f}; raise sampler.gpu_memory_utilization or "
            "kv_cache_gib, or take bigger cards"
        )


def host_advice(work: Workload, card: Card, held: Memory) -> Iterator[str]:
    there = card.host * min(card.gpus, work.ranks) * GIB
    if held.host > there:
        yield (
            f"the host: {held.host / GIB:.0f} GiB of a node are more than the {there / GIB:.0f} that card.host gives "
            "it: every rank reads the whole model, sleeping engines wait there, and the first rank gathers a checkpoint"
        )
