"""How much of an answer is reasoning, before its first `</think>`, and how much comes after it."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from isentropic.reward import Answer
from isentropic.rollout.prompts import PromptEncoder

OPENS, CLOSES = "<think>", "</think>"


class Reasoning(NamedTuple):
    """Tokens of an answer on both sides of the marker, which is in the reasoning; `open` without one."""

    inside: int
    after: int
    open: bool


def reasoning_of(
    tokenizer: PreTrainedTokenizerBase, text: str, tokens: Sequence[int], opened: bool
) -> Reasoning | None:
    """None for an answer that has no marker. `opened`: the prompt ends within the reasoning, as R1's template has it.

    A marker may be one token or several, special or not: the end is where the decoded beginning first holds it.
    """
    if any(one.special and one.content in (OPENS, CLOSES) for one in tokenizer.added_tokens_decoder.values()):
        # the text lacks these
        text = written(tokenizer, tokens)
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


def tally_of_reasoning(prompts: PromptEncoder, answers: Sequence[Answer]) -> Counter[str]:
    """Sums over the answers of one turn that have a block of reasoning; zeros where none has."""
    seen = Counter[str]()
    opened: dict[int, bool] = {}
    for answer in answers:
        if answer.played:
            continue
        if answer.group not in opened:
            opened[answer.group] = opens(prompts.tokenizer, prompts.encode(answer.problem))
        if found := reasoning_of(prompts.tokenizer, answer.text, answer.tokens, opened[answer.group]):
            seen.update(reasoned=1, reasoning_tokens=found.inside, answer_tokens=found.after, unclosed=int(found.open))
    return seen


def opens(tokenizer: PreTrainedTokenizerBase, prompt: Sequence[int]) -> bool:
    """Does the prompt end with an open block of reasoning?"""
    return written(tokenizer, prompt).rstrip().endswith(OPENS)


def written(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[int]) -> str:
    """Text of ids with special tokens, as `</think>` may be one."""
    text = tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return str(text)
