"""How many tokens of a micro-batch the card has room for, where neither their number nor that of rows is set."""

from dataclasses import replace

from isentropic.planning.architecture import Architecture
from isentropic.planning.card import Card
from isentropic.planning.memory import GIB, memory
from isentropic.planning.workload import Workload

TOKENS = 18432, 8192, 4096  # 16 answers of 1,024 with prompts of 128; more bring nothing, fewer are slower
USUAL = 8192  # where nothing is known of the memory
SHARE = 0.85  # of the room, as plans are right to within 15 %


def is_left_open(micro_batch: int | None, max_tokens_per_micro_batch: int | None) -> bool:
    """Whether the card chooses."""
    return micro_batch is None and max_tokens_per_micro_batch is None


def tokens_for(model: Architecture, work: Workload, card: Card, free: float | None = None) -> int:
    """The most of TOKENS with which an update stays within the card's room, beside an engine that does not sleep.

    `free`: bytes that others leave of the card; None is all of it. Where none fits, the fewest.
    """
    taken = 0.0 if free is None else max(0.0, card.memory * GIB - free)
    for tokens in TOKENS:
        held = memory(model, replace(work, max_tokens_per_micro_batch=tokens), card)
        if held.peak("update") <= SHARE * (held.room - taken):
            return tokens
    return TOKENS[-1]


def with_micro_batch(model: Architecture, work: Workload, card: Card) -> tuple[Workload, list[str]]:
    """The work as a run would cut it, and a sentence about it where the card chooses."""
    if not is_left_open(work.micro_batch, work.max_tokens_per_micro_batch):
        return work, []
    tokens = tokens_for(model, work, card)
    said = f"policy.optimization.max_tokens_per_micro_batch={tokens}, as {card.name} has room for it"
    return replace(work, max_tokens_per_micro_batch=tokens), [said]
