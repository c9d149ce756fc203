"""What an evaluation takes of one card: its answers, tokens and hours, at most."""

from collections.abc import Sequence
from dataclasses import dataclass

from isentropic.planning.architecture import Architecture
from isentropic.planning.card import Card
from isentropic.planning.decoding import rollout
from isentropic.planning.lengths import Lengths
from isentropic.planning.memory import GIB, engine_bytes
from isentropic.planning.workload import Engine, Workload

SEQUENCES, SHARE, BF16 = 512, 0.9, 2  # of an engine that has the card to itself


@dataclass(frozen=True)
class Asked:
    """A set as it would be asked."""

    name: str
    problems: int
    count: int  # answers of each
    max_tokens: int  # of an answer

    @property
    def answers(self) -> int:
        return self.problems * self.count

    @property
    def tokens(self) -> int:
        """At most."""
        return self.answers * self.max_tokens


def hours(model: Architecture, card: Card, lengths: Lengths, asked: Sequence[Asked]) -> list[float]:
    """GPU hours of each set, one after the other, on an engine with CUDA graphs and the card to itself.

    Raises ValueError where the weights leave no room for answers on so few as eight cards.
    """
    return [seconds(model, card, lengths, one) * ranks_for(model, card) / 3600 for one in asked]


def seconds(model: Architecture, card: Card, lengths: Lengths, asked: Asked) -> float:
    work = workload(model, card, lengths, asked)
    assert work.engine is not None
    cache = engine_bytes(model, work.engine, card)[1]
    return rollout(model, work, card, cache, asked.answers, asked.answers, asked.max_tokens)


def ranks_for(model: Architecture, card: Card) -> int:
    """Cards of one engine: the fewest whose memory holds the weights twice over."""
    for ranks in (1, 2, 4, 8):
        if 2 * BF16 * model.parameters <= ranks * SHARE * card.memory * GIB:
            return ranks
    raise ValueError(f"{model.parameters / 1e9:.0f} B parameters leave no room for answers on eight {card.name}")


def workload(model: Architecture, card: Card, lengths: Lengths, asked: Asked) -> Workload:
    """Of answers alone: nothing learns."""
    ranks = ranks_for(model, card)
    engine = Engine(
        size=BF16, ranks=ranks, is_remote=False, context=lengths.prompt + asked.max_tokens, sequences=SEQUENCES,
        cache=None, share=SHARE, sleep_level=0, eager=False, fast_decode=True, returns_logprobs=False,
    )  # fmt: skip
    return Workload(
        ranks=ranks, shards=1, rows=0, group=1, prompts_asked=0, updates=1, rollouts=0, max_tokens=asked.max_tokens,
        micro_batch=1, max_tokens_per_micro_batch=None, max_tokens_no_grad=None, sharded_gradients=False,
        reshard_after_forward=False, size=BF16, logits_chunk=1, packed=False, share_prompts=False,
        checkpointing="none", compiled=False, adapter=None, reference=False, reference_weights=False,
        reuse_update_forward=True, one_step_off_policy=False, logp_recomputations=0, engine=engine,
        eval_answers=asked.answers, eval_max_tokens=asked.max_tokens, evaluations=1, verifiers=None, lengths=lengths,
    )  # fmt: skip


def table(asked: Sequence[Asked], took: Sequence[float]) -> list[str]:
    """For the screen."""
    width = max(8, *(len(one.name) for one in asked)) + 2
    lines = [f"{'set':<{width}}{'problems':>9}{'each':>6}{'answers':>9}{'tokens at most':>16}{'GPU hours':>11}"]
    for one, time in zip(asked, took, strict=True):
        lines.append(
            f"{one.name:<{width}}{one.problems:>9,}{one.count:>6}{one.answers:>9,}{one.tokens:>16,}{time:>11.2f}"
        )
    problems, answers, tokens = (sum(getattr(one, name) for one in asked) for name in ("problems", "answers", "tokens"))
    return [*lines, f"{'together':<{width}}{problems:>9,}{'':>6}{answers:>9,}{tokens:>16,}{sum(took):>11.2f}"]
