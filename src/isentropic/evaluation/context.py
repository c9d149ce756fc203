"""Do prompts and answers fit into what the model reads?"""

from collections.abc import Sequence
from dataclasses import replace

from isentropic.evaluation.questions import AskedSet

SHORTER = "a shorter evaluation.protocol.template or a model that reads more would fit"


def fitted(sets: Sequence[AskedSet], context: int) -> tuple[list[AskedSet], list[str]]:
    """The sets, with answers cut to what the longest prompt leaves, and a sentence for each that was cut.

    Raises ValueError where a prompt leaves no room for a token.
    """
    found: list[AskedSet] = []
    said: list[str] = []
    for one in sets:
        room, asked = context - one.longest, one.decoding.max_tokens
        if room < 1:
            row = max(range(len(one.prompts)), key=lambda place: len(one.prompts[place]))
            raise ValueError(
                f"problem {row + 1} of {one.name} has a prompt of {one.longest} tokens, and the model reads {context} "
                f"with the answer; {'leave the set out by evaluation.protocol.only=[...]' if sets[1:] else SHORTER}"
            )
        if asked > room:
            said.append(
                f"{one.name}: answers have at most {room} tokens in place of the protocol's {asked}, as the model "
                f"reads {context} and the longest prompt has {one.longest}"
            )
            one = replace(one, decoding=replace(one.decoding, max_tokens=room))
        found.append(one)
    return found, said


def check_known(sets: Sequence[AskedSet], vocabulary: int) -> None:
    """Raises ValueError for a prompt with a token that the model does not have, as of another model's tokenizer."""
    for one in sets:
        most = max((max(ids, default=0) for ids in one.prompts), default=0)
        if most >= vocabulary:
            raise ValueError(
                f"a prompt of {one.name} has the token {most}, and the model has {vocabulary:,}; its tokenizer is"
                " that of another"
            )


def needed(sets: Sequence[AskedSet]) -> int:
    """Tokens of the longest prompt with its answer."""
    return max(one.longest + one.decoding.max_tokens for one in sets)
