r"""Find the final answer in a text: in one pass, whatever a model wrote; only marks are looked for, nothing is parsed.

The last box counts, \boxed{} or \fbox{}, and one that is not closed is no answer. Boxes that follow each other in one
sentence (`\boxed{3} or \boxed{4}`) are one answer, a list, which only a list can be equal to.
"""

# ruff: noqa: RUF001  signs of other scripts are what this is about
import re
from typing import NamedTuple

FIRST = re.compile(r"(?<!\\)\\++(?:boxed|fbox)")  # with the backslashes before it, two of which are one sign
MARK = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])|\\.|[{}]", re.DOTALL)
BRACE = re.compile(r"\s{0,8}\{")
BARE = re.compile(r"\s{0,9}(-?\d{1,40}(?:\.\d{1,40})?|[A-HJ-Zb-z](?![A-Za-z]))")  # \boxed 5
JOINING = r"or|and|alternatively|perhaps|maybe|possibly|either|else|oder|und|ou|et|o|y|или|и"
JOINED = re.compile(
    rf"(?:[\s,;&/|、，；$()}}]|或者?|和|以及|\\(?:text\s?\{{|q?quad\b|[\\;,:! ()])|\b(?:{JOINING})\b"
    r"|(?:(?<=\n)|(?<=\n ))(?:[-*•]|\d{1,2}[.)])(?=\s)|\b[A-Za-z](?:_\w)?\s?=)*",
    re.IGNORECASE,
)
HEDGED = re.compile(
    r"[^.!?\n。]*(?<![A-Za-z])(?:or|alternatively|perhaps|maybe|possibly)(?![A-Za-z])[^.!?\n。]*", re.IGNORECASE
)
BOXED = r"\boxed{"
MOST = 100  # boxes of one answer
GAP = 60  # characters between boxes of one answer
INTEGER = re.compile(r"([-\u2212+]?\d{1,3}(?:,\d{3}){1,30}|[-\u2212+]?\d{1,100})(?:\.0{0,9})?")
WRAPPING = "*_`$\\()[]{}= \t"  # what may stand around an integer and says nothing about it
DANGLING = ".\u3002+-"  # after it: a full stop, or signs with nothing behind them


class Box(NamedTuple):
    r"""A \boxed{} or \fbox{} in a text, by places of characters."""

    start: int  # of the command
    inside: tuple[int, int]  # the content, cut out only where it is the answer: nested ones would be copied often
    end: int  # after the closing brace


def last_box(text: str) -> str | None:
    r"""The content of the last box, braces nested and \{ escaped; None without any, or if the last is not closed."""
    boxes, is_open = closed_boxes(text)
    return None if is_open or not boxes else joined(text, boxes)


def very_last_box(text: str) -> str | None:
    """The content of the last box alone, trimmed, whatever the sentence names beside it; None where there is none."""
    boxes, is_open = closed_boxes(text)
    return None if is_open or not boxes else text[slice(*boxes[-1].inside)].strip()


def joined(text: str, boxes: list[Box]) -> str:
    """The last box, with those before it that the same sentence names."""
    answer = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        gap = text[box.end : answer[0].start] if answer[0].start - box.end <= GAP else "."
        if not (JOINED.fullmatch(gap) or HEDGED.fullmatch(gap)) or len(answer) == MOST:
            break
        answer.insert(0, box)
    return ", ".join(dict.fromkeys(text[slice(*box.inside)].strip() for box in answer))


def closed_boxes(text: str) -> tuple[list[Box], bool]:
    """Outermost closed boxes in order, and whether the last box of all was left open."""
    boxes, is_open = list[Box](), False
    first = FIRST.search(text)
    if first is None:
        return boxes, is_open
    opened = list[tuple[int, int] | None]()  # where a box and its content start; None for other braces
    expected = -1  # where the brace of the latest box must stand
    command = 0
    for mark in MARK.finditer(text, first.start()):  # braces before it are of no box
        sign = mark[0]
        if sign == "{":
            opened.append((command, mark.end()) if mark.start() == expected else None)
            is_open = is_open or mark.start() == expected
        elif sign == "}" and opened:
            place = opened.pop()
            if place is not None:
                while boxes and boxes[-1].start > place[0]:
                    boxes.pop()  # lies in this one
                boxes.append(Box(place[0], (place[1], mark.start()), mark.end()))
                is_open = False
        elif sign[1:] in ("boxed", "fbox"):
            command, expected = mark.start(), brace_after(text, mark.end())
            bare = BARE.match(text, mark.end()) if expected < 0 else None
            if bare:
                boxes.append(Box(command, bare.span(1), bare.end()))
                is_open = False
    return boxes, is_open


def brace_after(text: str, place: int) -> int:
    """Where { stands after a few spaces; -1 if something else does."""
    found = BRACE.match(text, place)
    return found.end() - 1 if found else -1


def after_marker(text: str, marker: str) -> str | None:
    """What follows the last marker, trimmed; None without any. A marker like <answer> ends at </answer>."""
    _, found, after = text.rpartition(marker) if marker else ("", "all", text)
    if not found:
        return None
    if marker.startswith("<"):
        after = after.partition(f"</{marker[1:]}")[0]
    return after.strip()


def final_answer(text: str, marker: str) -> str | None:
    """A boxed answer, or else the first line with anything in it after the last marker; None if there is neither.

    Bold type may stand in or around a marker. None also where the last box was not closed: it was cut off.
    """
    boxes, is_open = closed_boxes(text)
    if boxes or is_open:
        return None if is_open else joined(text, boxes) or None
    after = after_marker(text, marker)
    if after is None:
        after = after_marker(text.replace("**", ""), marker)
    return first_line(after or "") or None


def first_line(text: str) -> str:
    r"""The first line that says something; all of $$ or \[ where one opens it."""
    for left, right in (("$$", "$$"), ("\\[", "\\]")):
        if text.startswith(left):
            return text[2:].partition(right)[0].strip()
    for _ in range(3):
        line, _, text = text.partition("\n")
        if line.strip(" \t*_:"):
            return line.strip()
        text = text.lstrip()
    return ""


def whole_integer(text: str) -> int | None:
    """The integer that a line is, whatever bold, dollar signs, full stop or dangling signs surround it; else None."""
    line = text.partition("\n")[0][:200].strip(WRAPPING).rstrip(WRAPPING + DANGLING).removeprefix("boxed{")
    match = INTEGER.fullmatch(line)
    return int(match[1].replace("\u2212", "-").replace(",", "")) if match else None
