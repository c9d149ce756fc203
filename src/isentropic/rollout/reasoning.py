"""How much of an answer is reasoning, before its first `</think>`, and how much comes after it."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from isentropic.batch import RolloutBatch
from isentropic.reward import Answer
from isentropic.rollout.prompts import PromptEncoder

OPENS, CLOSES = "<think>", "</think>"


class Reasoning(NamedTuple):
    """Tokens of an answer on both sides of the marker, which is in the reasoning; `open` without one."""

    inside: int
    after: int
    open: bool


def are_special(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether texts of answers lack the markers, as they lack special tokens."""
    return any(one.special and one.content in (OPENS, CLOSES) for one in tokenizer.added_tokens_decoder.values())


def reasoning_of(
    tokenizer: PreTrainedTokenizerBase, text: str, tokens: Sequence[int], opened: bool
) -> Reasoning | None:
    """None for an answer whose text, with its markers, has none.

    `opened`: the prompt ends within the reasoning, as R1's template has it. A marker may be one token or several,
    special or not: the end is where the decoded beginning first holds it.
    """
    if not opened and OPENS not in text and CLOSES not in text:
        return None
    if CLOSES not in text:
        return Reasoning(len(tokens), 0, True)
    low, high = 1, len(tokens)
    while low < high:
        middle = (low + high) // 2
        if CLOSES in written(tokenizer, tokens[:middle]):
            high = middle
        else:
            low = middle + 1
    return Reasoning(low, len(tokens) - low, False)


def tally_of_reasoning(prompts: PromptEncoder, answers: Sequence[Answer], batch: RolloutBatch) -> Counter[str]:
    """Sums over the answers of one turn, the rows of a batch, that have a block of reasoning; zeros where none has."""
    seen, tokenizer = Counter[str](), prompts.tokenizer
    opened: dict[int, bool] = {}
    hidden = are_special(tokenizer)  # reads all added tokens anew, hundreds of some tokenizers
    for row, answer in enumerate(answers):
        if answer.played:
            continue
        if answer.group not in opened:
            ids = prompt_of(batch, row) if answer.tokens else prompts.encode(answer.problem)
            opened[answer.group] = opens(tokenizer, ids)
        text = written(tokenizer, answer.tokens) if hidden else answer.text
        if found := reasoning_of(tokenizer, text, answer.tokens, opened[answer.group]):
            seen.update(reasoned=1, reasoning_tokens=found.inside, answer_tokens=found.after, unclosed=int(found.open))
    return seen


def prompt_of(batch: RolloutBatch, row: int) -> list[int]:
    """What was asked in a row with an answer that has a token."""
    return batch.tokens[row, : int(batch.mask[row].int().argmax())].tolist()


def opens(tokenizer: PreTrainedTokenizerBase, prompt: Sequence[int]) -> bool:
    """Does the prompt end with an open block of reasoning?"""
    return written(tokenizer, prompt).rstrip().endswith(OPENS)


def written(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[int]) -> str:
    """Text of ids with special tokens, as `</think>` may be one."""
    text = tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return str(text)
