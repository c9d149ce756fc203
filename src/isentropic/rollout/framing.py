"""How an observation becomes tokens: as text, or in the frame that a chat template puts around it.

Nothing that stands in the row already is rendered or encoded again: the frame is what a template writes between the end
of an assistant's message and the beginning of its next one.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, cast

from jinja2 import TemplateError

from isentropic.rollout.prompts import PromptEncoder
from isentropic.rollout.turns import Turns

CALL, RESULT, DOTS = "CALLWRITTEN", "RESULTREAD", "..."
BEFORE = ("\n", "=", "a")  # texts that another may follow without a blank; one of them is not joined with it
WIDE = 64  # characters that a token of a long observation is taken to have at most, before it is cut
TRIED = (('4 "2"',), ("42", "a\nb"), ("",))  # results of one turn: one, two, an empty one
PAD = "\u2003"  # a blank around each name, which templates that trim what they are given take away
NAME = re.compile(f"({PAD}?){RESULT}([0-9]+)E({PAD}?)")
KEPT = 64  # kinds of turns, by the results that are empty in them
THOUGHTS = ("call", "<think>\nhm\n</think>\n\ncall")


class Hole(NamedTuple):
    """Of a frame, a text in which results stand by their names."""

    text: str
    before: int | None  # the special token that it follows


@dataclass(frozen=True)
class Framing:
    """What special tokens of the tokenizer look like stays text where it stands in an observation."""

    prompts: PromptEncoder
    turns: Turns

    def frame(self, texts: Sequence[str], ended: bool) -> list[int]:
        """Ids of all results of one turn; `ended` says whether the policy wrote the template's end token itself."""
        if not self.prompts.chat:
            return self.text_ids("".join(texts))
        end, pieces = self.pieces(tuple(map(bool, texts)))
        ids = [] if ended or end is None else [end]
        for piece in pieces:
            ids += piece if isinstance(piece, list) else self.text_ids(named(piece.text, texts), piece.before)
        return ids

    def fitted(self, texts: Sequence[str], ended: bool, room: int) -> list[int] | None:
        """The frame, with long texts cut to what `room` tokens leave; None where they may not be, or cannot."""
        texts = [sound(text) for text in texts]
        bound = 2 * WIDE * max(room, 1)  # what is longer is not encoded as a whole
        if sum(map(len, texts)) <= bound and len(ids := self.frame(texts, ended)) <= room:
            return ids
        left = room - len(self.frame(["" for _ in texts], ended))
        while self.turns.cut and left >= len(texts):
            ids = self.frame([self.shortened(text, left // len(texts)) for text in texts], ended)
            if len(ids) <= room:
                return ids
            left -= max(1, len(ids) - room)
        return None

    def shortened(self, text: str, limit: int) -> str:
        """Head and tail of at most so many tokens together, cut where both are decoded as they stood."""
        bound = WIDE * limit
        shown = text if len(text) <= 2 * bound else text[:bound] + text[-bound:]
        ids = self.text_ids(shown)
        if len(ids) <= limit and shown == text:
            return text
        dots = DOTS if self.decoded(self.text_ids(DOTS)) == DOTS else ""
        room = limit - len(self.text_ids(dots))
        if room < 0:
            return ""
        head, tail = (room + 1) // 2, room // 2
        while not text.startswith(self.decoded(ids[:head])):
            head -= 1
        while not text.endswith(self.decoded(ids[len(ids) - tail :])):
            tail -= 1
        return self.decoded(ids[:head]) + dots + self.decoded(ids[len(ids) - tail :])

    def text_ids(self, text: str, before: int | None = None) -> list[int]:
        """Of a text in which nothing is a special token; what looks like one is taken apart.

        `before` is the special token that the text follows, if it follows one.
        """
        ids: list[int] = []
        while self.added and (match := self.added.search(text)):
            ids += self.behind(text[: match.start() + 1], None if ids else before)
            text = text[match.start() + 1 :]
        return ids + self.behind(text, None if ids else before)

    def behind(self, text: str, before: int | None) -> list[int]:
        """Of a text as it stands in a row: tokenizers may put a blank before what they encode alone."""
        if not text:
            return []
        for anchor, start in self.anchors(before) if self.prepends else ():
            whole = self.encoded(anchor + text)
            if whole[: len(start)] == start:
                ids = whole[len(start) :]
                break
        else:
            ids = self.encoded(text)
        if self.special.isdisjoint(ids):
            return ids
        # made by the tokenizer's normalizer, as of characters of full width
        return [id for symbol in text for id in self.encoded(symbol) if id not in self.special]

    @cached_property
    def anchors(self) -> Callable[[int | None], list[tuple[str, list[int]]]]:
        """Texts that another may be taken to follow, by the special token that stands before it, and their ids."""

        def found(before: int | None) -> list[tuple[str, list[int]]]:
            texts = BEFORE if before is None else (self.decoded([before]),)
            return [(text, self.encoded(text)) for text in texts]

        return lru_cache(KEPT)(found)

    def encoded(self, text: str) -> list[int]:
        """Ids of a text as the tokenizer writes it alone."""
        return self.prompts.tokenizer.encode(text, add_special_tokens=False)

    @cached_property
    def prepends(self) -> bool:
        """Whether two texts that are encoded one by one become another one than together."""
        return self.decoded(2 * self.encoded("1")) != "11"

    @cached_property
    def special(self) -> set[int]:
        """Ids of what `added` finds, but that of unknown text."""
        known, unknown = self.prompts.tokenizer.added_tokens_decoder, self.prompts.tokenizer.unk_token_id
        ids = {id for id, token in known.items() if len(token.content) > 1 and token.content.strip()}
        return {id for id in ids if id != unknown}

    def decoded(self, ids: list[int]) -> str:
        """Text of ids with special tokens, for messages."""
        text = self.prompts.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        return text

    @cached_property
    def added(self) -> re.Pattern[str] | None:
        """What a tokenizer takes for one token wherever it stands; runs of blanks may be such, which are harmless."""
        texts = {token.content for token in self.prompts.tokenizer.added_tokens_decoder.values()}
        known = sorted((text for text in texts if len(text) > 1 and text.strip()), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, known))) if known else None

    @cached_property
    def end(self) -> int | None:
        """The token that the template ends an assistant's message by; None in plain text."""
        return self.pieces((False,))[0] if self.prompts.chat else None

    @cached_property
    def pieces(self) -> Callable[[tuple[bool, ...]], tuple[int | None, list[list[int] | Hole]]]:
        """As `split`, which renders the template once for each kind of turn, not once for each turn."""
        return lru_cache(KEPT)(self.split)

    def split(self, full: tuple[bool, ...]) -> tuple[int | None, list[list[int] | Hole]]:
        """The token that ends an assistant's message, and what follows it: ids, and texts with results in them.

        `full` says of each result of a turn whether it has a text.
        """
        results = [name_of(place) if there else "" for place, there in enumerate(full)]
        rest = self.rendered(CALL, results).partition(CALL)[2]
        parts: list[int | str] = []
        start = 0
        for match in self.added.finditer(rest) if self.added else ():
            token = cast(int, self.prompts.tokenizer.convert_tokens_to_ids(match[0]))
            parts += [rest[start : match.start()], token]
            start = match.end()
        parts.append(rest[start:])
        end = next((part for part in parts if isinstance(part, int)), None)
        after = parts if end is None else parts[parts.index(end) + 1 :]
        pieces: list[list[int] | Hole] = []
        before = end
        for part in after:
            if isinstance(part, int):
                pieces.append([part])
            elif NAME.search(part):
                pieces.append(Hole(part, before))
            else:
                pieces.append(self.text_ids(part, before))
            before = part if isinstance(part, int) else None
        return end, pieces

    def messages(self, call: str, results: Sequence[str]) -> list[dict[str, str]]:
        """A conversation of one question, the assistant's `call`, and a message for each result."""
        first = [{"role": "user", "content": "question"}, {"role": "assistant", "content": call}]
        return [*first, *({"role": self.turns.role, "content": result} for result in results)]

    def rendered(self, call: str, results: Sequence[str]) -> str:
        """That conversation as the chat template writes it, up to the assistant's next message."""
        text = self.prompts.tokenizer.apply_chat_template(
            self.messages(call, results), tokenize=False, add_generation_prompt=True, **self.prompts.template_arguments
        )
        return str(text)

    def ids(self, messages: list[dict[str, str]]) -> list[int]:
        """Messages as the chat template encodes them, up to the assistant's next one."""
        arguments = self.prompts.template_arguments
        ids = self.prompts.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False, **arguments
        )
        return list[int](ids)  # pyright: ignore[reportArgumentType]

    def check(self) -> None:
        """Raises ValueError where a conversation turn by turn is not what the template makes of it as a whole."""
        if self.prompts.chat:
            try:
                self.check_template()
            except (TemplateError, TypeError, KeyError) as error:
                raise ValueError(
                    f"the chat template refuses observations of role {self.turns.role} "
                    f"({' '.join(str(error).split())}); take rollout.turns.role=user"
                ) from error
        if not (frame := len(self.frame([""], False))) < self.turns.observation_tokens:
            raise ValueError(
                f"rollout.turns.observation_tokens={self.turns.observation_tokens} leaves nothing to be read: the chat "
                f"template alone puts {frame} tokens around an observation"
            )

    def check_template(self) -> None:
        """Raises ValueError where the template frames an observation otherwise in a whole conversation than alone.

        Also where it rewrites earlier turns and rollout.turns.thinking=refuse. Tried on a few turns, with and without
        thoughts.
        """
        for call in THOUGHTS:
            for results in TRIED:
                frame, whole = self.frame(results, False), self.ids(self.messages(call, results))
                if whole[-len(frame) :] != frame:
                    raise ValueError(
                        f"the chat template writes observations of role {self.turns.role} in a whole conversation "
                        f"otherwise than alone ({self.decoded(whole)[-80:]!r}); take rollout.turns.role=user, or "
                        "another rollout.chat_template"
                    )
                history = self.ids(self.messages(call, results)[:1]) + self.text_ids(call)
                before = whole[: -len(frame)]
                if before != history and self.turns.thinking == "refuse":
                    raise ValueError(
                        f"the chat template rewrites earlier turns ({call!r} became {self.decoded(before)[-60:]!r}), "
                        "and rollout.turns.thinking=refuse; keep goes on with what was written"
                    )


def sound(text: str) -> str:
    """Halves of a character, which no tokenizer takes, are joined; one that stands alone becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def name_of(place: int) -> str:
    """What stands for the result in this place while a template is rendered."""
    return f"{PAD}{RESULT}{place}E{PAD}"


def named(text: str, results: Sequence[str]) -> str:
    """With each result in its place, trimmed where the template trims; at once, as a result may look like a name."""

    def result(match: re.Match[str]) -> str:
        said = results[int(match[2])]
        said = said if match[1] else said.lstrip()
        return said if match[3] else said.rstrip()

    return NAME.sub(result, text)
