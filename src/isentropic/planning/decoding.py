"""How long an engine takes to answer."""

from isentropic.planning.architecture import Architecture
from isentropic.planning.card import Card
from isentropic.planning.workload import FP32, Engine, Workload


def concurrent_answers(model: Architecture, work: Workload, cache: float, answers: int, longest: int) -> float:
    """Answers that one engine writes at one time: as many as there are, as it takes, and as its cache holds on average.

    `cache` is of one of its cards, in bytes; `answers` are those of one rank.
    """
    engine = work.engine
    if engine is None or not answers:
        return 0.0
    held = work.lengths.prompt + work.lengths.observed + work.lengths.square(longest) / (2 * work.lengths.mean(longest))
    room = cache * engine.ranks / (held * model.cache(engine.size))
    return min(answers * ranks_per_engine(work, engine), engine.sequences, max(1.0, room))


def ranks_per_engine(work: Workload, engine: Engine) -> int:
    """Ranks that ask one engine."""
    return work.ranks if engine.is_remote else engine.ranks


def rollout(
    model: Architecture, work: Workload, card: Card, cache: float, prompts: int, answers: int, longest: int
) -> float:
    """Prompts are read once per group, what is observed once per answer; a token is drawn at a time, until the last.

    A step reads all weights, or computes, whichever takes longer, and then what the cache holds; and it costs the
    engine's own time besides.
    """
    engine = work.engine
    if engine is None or not answers:
        return 0.0
    peak = (card.flops if engine.size < FP32 else card.flops_fp32) * engine.ranks * card.utilization(model.hidden)
    rate = card.bandwidth * card.bandwidth_share * engine.ranks
    at_once = concurrent_answers(model, work, cache, answers, longest)
    ranks = ranks_per_engine(work, engine)
    answers, prompts = answers * ranks, prompts * ranks
    tokens = answers * work.lengths.mean(longest)
    steps = tokens / at_once + longest - work.lengths.mean(longest)
    before = work.lengths.prompt + work.lengths.observed / 2  # of a token, in the middle of its answer
    remembered = answers * (before * work.lengths.mean(longest) + work.lengths.square(longest) / 2)
    weights = steps * engine.size * model.parameters / rate
    products = 2.0 * model.parameters * tokens / (peak * card.decode_share)
    read = prompts * work.lengths.prompt + answers * work.lengths.observed
    prefill = 2.0 * model.parameters * read / (peak * card.product_share)
    keys = remembered * model.cache(engine.size) / (rate * card.utilization(model.hidden))
    step = card.step + (model.layers * card.launch if engine.eager else 0.0)
    own = steps * step + tokens * per_token(engine, card)
    return prefill + max(weights, products) + keys + own + tokens / ranks * card.detokenize


def per_token(engine: Engine, card: Card) -> float:
    """Seconds of scheduling and sampling."""
    return (card.sequence if engine.fast_decode else card.sequence_default) + (
        card.logprob if engine.returns_logprobs else 0.0
    )
