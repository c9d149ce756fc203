"""What ends a completion: the model's own end tokens, and a text, of one token or of several.

A text of one token is that token. One of several is looked for in what was written, as other tokens may make the same
text (`</tool_call>` can end in `>` or in `call>`), and the last of them may hold more than its end. Whole tokens are
kept, that one included: text that is cut and encoded again would be other tokens than those that were drawn.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, GenerationConfig


@dataclass(frozen=True)
class Ends:
    """Ids of tokens that end a completion, and a text of several tokens that does."""

    tokens: frozenset[int]  # each ends a completion
    text: str | None = None  # so does this, where it is of several tokens
    closing: frozenset[int] = frozenset()  # tokens that may hold the end of the text
    tokenizer: Any = None

    @property
    def ids(self) -> list[int]:
        """Tokens at which it must be asked whether the completion has ended."""
        return sorted(self.tokens | self.closing)

    def met(self, written: Sequence[int]) -> bool:
        """Whether the last token of a completion ends it, where none before did."""
        if written[-1] in self.tokens:
            return True
        return written[-1] in self.closing and str(self.text) in self.decoded(written[-self.width :])

    @property
    def width(self) -> int:
        """Tokens that the text has at most: four bytes a character, and one token for what leads into it."""
        return 4 * len(self.text or "") + 1

    def decoded(self, tokens: Sequence[int]) -> str:
        """Their text, special tokens included."""
        return self.tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False)


@cache
def ends_of(path: str, stop: str | None) -> Ends:
    """Of the model in a folder. Raises ValueError for a text that its tokenizer does not write."""
    own = frozenset(eos_of(path))
    return Ends(own) if stop is None else ends_by(AutoTokenizer.from_pretrained(path), stop, own)


def ends_by(tokenizer: Any, stop: str, own: frozenset[int] = frozenset()) -> Ends:
    """Raises ValueError for a text that the tokenizer does not write."""
    ids = tokenizer.encode(stop, add_special_tokens=False)
    if len(ids) == 1:
        return Ends(own.union(ids))
    ends = Ends(own, stop, closing_tokens(tokenizer, stop) - own, tokenizer)
    if stop not in (found := ends.decoded(ids)):
        raise ValueError(
            f"stop={stop!r} becomes {found!r} by the tokenizer of {tokenizer.name_or_path} ({ids}), so that it would "
            "never be found; take another text"
        )
    return ends


def closing_tokens(tokenizer: Any, text: str) -> frozenset[int]:
    """Those whose own text holds the whole, or begins with an end of it; a part of a character may be any."""
    ends = tuple(text[start:] for start in range(1, len(text)))
    pieces = tokenizer.batch_decode(
        [[token] for token in range(len(tokenizer))], skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    broken = "" if text.isascii() else "\ufffd"
    return frozenset(
        token
        for token, piece in enumerate(pieces)
        if piece.startswith(ends) or text in piece or (broken and broken in piece)
    )


def eos_of(path: str) -> set[int]:
    """End tokens of a model folder or a name on the hub: of its config, generation config and tokenizer together."""
    listed = [AutoConfig.from_pretrained(path).eos_token_id]
    on_hub = not Path(path).exists()
    if on_hub or (Path(path) / "generation_config.json").is_file():
        listed.append(GenerationConfig.from_pretrained(path).eos_token_id)
    if on_hub or (Path(path) / "tokenizer_config.json").is_file():
        listed.append(AutoTokenizer.from_pretrained(path).eos_token_id)
    return {int(token) for ids in listed if ids is not None for token in ([ids] if isinstance(ids, int) else ids)}
