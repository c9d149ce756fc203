"""A question out of a column: a text, or a chat with what was said before."""

from collections.abc import Mapping
from math import isfinite
from numbers import Number
from typing import Any, cast

from isentropic.task import Message

Chat = list[Mapping[str, Any]]


def asked(value: Any, place: str) -> tuple[str, tuple[Message, ...]]:
    """The question, and the messages before it: a system's, examples. What follows the user's last message is left out.

    Raises ValueError for a chat in which the user says nothing, for no text at all, and for what is neither.
    """
    if not is_chat(value):
        if not is_text(value):
            raise ValueError(f"{place} has {value!r:.60} as its question, where a text or a list of messages must be")
        return said(", ".join(map(str, value)) if isinstance(value, list) else str(value), place), ()
    check_texts(cast(Chat, value), place)
    chat = [{"role": str(message["role"]), "content": text_of(message.get("content"))} for message in cast(Chat, value)]
    last = max((i for i, message in enumerate(chat) if message["role"] == "user"), default=None)
    if last is None:
        raise ValueError(f"{place} has a chat in which the user says nothing: {value!r:.80}")
    return said(chat[last]["content"], place), tuple(chat[:last])


def check_texts(chat: Chat, place: str) -> None:
    """Raises ValueError for a message with more to it than a text, which the policy would not see."""
    for message in chat:
        content = message.get("content")
        parts = cast(list[Any], content) if isinstance(content, list) else []
        lost = [part for part in parts if not (isinstance(part, str) or is_part(part))]
        if not (content is None or isinstance(content, str | list)):
            lost = [content]
        if lost := message.get("tool_calls") or lost:
            raise ValueError(f"{place} has a message with {lost!r:.70}, where a text must be: nothing else is asked")


def is_part(part: Any) -> bool:
    """Whether it is a part of a message's content that is a text."""
    return isinstance(part, Mapping) and part.get("type", "text") == "text" and isinstance(part.get("text"), str)


def said(text: str, place: str) -> str:
    """The text. Raises ValueError for one of spaces alone."""
    if not text.strip():
        raise ValueError(f"{place} has an empty question")
    return text


def plain(value: Any, place: str) -> str:
    """A text as it is; of a chat the last message; of several answers all, as one would list them.

    Raises ValueError for what is none of these.
    """
    if is_chat(value):
        return text_of(cast(Chat, value)[-1].get("content"))
    if not is_text(value):
        raise ValueError(f"{place} has {value!r:.60} as its answer, where a text, a number or a list of them must be")
    return ", ".join(map(str, cast(list[Any], value))) if isinstance(value, list) else str(value)


def is_text(value: Any) -> bool:
    """Whether it reads as one would write it: a text, a finite number, or a list of these."""
    if isinstance(value, list):
        return not any(isinstance(item, list) or not is_text(item) for item in cast(list[Any], value))
    return isinstance(value, str | Number) and not (isinstance(value, float) and not isfinite(value))


def is_chat(value: Any) -> bool:
    """Whether a column's value is a list of messages with roles."""
    items = cast(list[Any], value) if isinstance(value, list) else []
    return bool(items) and all(isinstance(item, Mapping) and "role" in item for item in items)


def text_of(content: Any) -> str:
    """Of a message whose content is a list of parts, its texts."""
    if isinstance(content, list):
        parts = cast(list[Any], content)
        return "".join(
            str(cast(Mapping[str, Any], p).get("text", "")) if isinstance(p, Mapping) else str(p) for p in parts
        )
    return "" if content is None else str(content)
