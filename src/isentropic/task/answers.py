"""Find the final answer in a text."""

import re

BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
INTEGER = re.compile(r"[\s*$]*([-\u2212+]?\d{1,100})(?![.,]?\d)")


def after_marker(text: str, marker: str) -> str | None:
    """What follows the last marker, trimmed; None without any. A marker like <answer> ends at </answer>."""
    _, found, after = text.rpartition(marker) if marker else ("", "all", text)
    if not found:
        return None
    if marker.startswith("<"):
        after = after.partition(f"</{marker[1:]}")[0]
    return after.strip()


def boxed(text: str) -> str | None:
    r"""The content of the last \boxed{} or \fbox{} that is closed, braces nested; None without any."""
    for box in reversed(list(BOX.finditer(text))):
        depth = 1
        for end in range(box.end(), len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if depth == 0:
                return text[box.end() : end].strip()
    return None


def final_answer(text: str, marker: str) -> str | None:
    """A boxed answer, or else the rest of the line after the last marker; None if there is neither."""
    answer = boxed(text)
    if answer is None:
        answer = (after_marker(text, marker) or "").partition("\n")[0].strip()
    return answer or None


def leading_integer(text: str) -> int | None:
    """The integer a text starts with; None if it starts with something else, a decimal fraction included."""
    match = INTEGER.match(text)
    return int(match[1].replace("\u2212", "-")) if match else None
