"""How long an engine takes to answer."""

from isentropic.planning.architecture import Architecture
from isentropic.planning.card import Card
from isentropic.planning.workload import FP32, Engine, Workload


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

    A step reads all weights, or computes, whichever takes longer, and then what the cache holds; and it costs the
    engine's own time besides.
    """
    engine = work.engine
    if engine is None or not answers:
        return 0.0
    peak = (card.flops if engine.size < FP32 else card.flops_fp32) * engine.ranks
    rate = card.bandwidth * card.bandwidth_share * engine.ranks
    askers = work.ranks if engine.apart else engine.ranks
    answers, prompts = answers * askers, prompts * askers
    tokens = answers * work.lengths.mean(longest)
    at_once = concurrency(model, work, cache * engine.ranks, answers, longest)
    steps = tokens / at_once + longest - work.lengths.mean(longest)
    remembered = answers * (work.lengths.prompt * work.lengths.mean(longest) + work.lengths.square(longest) / 2)
    weights = steps * engine.size * model.parameters / rate
    products = 2.0 * model.parameters * tokens / (peak * card.decode_share)
    prefill = 2.0 * model.parameters * prompts * work.lengths.prompt / (peak * card.product_share)
    keys = remembered * model.cache(engine.size) / rate
    step = card.step + (model.layers * card.launch if engine.eager else 0.0)
    own = steps * step + tokens * per_token(engine, card)
    return prefill + max(weights, products) + keys + own + tokens / askers * card.text


def per_token(engine: Engine, card: Card) -> float:
    """Of the engine's own work."""
    return (card.sequence if engine.short else card.sequence_plain) + (card.told if engine.tells else 0.0)
