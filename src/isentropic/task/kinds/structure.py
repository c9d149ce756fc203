r"""Reads what an answer is made of: lists, tuples, sets, intervals, matrices, relations, and formulas in them."""

import re
from collections.abc import Iterator

from isentropic.task.kinds.evaluation import symbols
from isentropic.task.kinds.shapes import NAME, Formula, Kind, Many, Matrix, Relation, Union, squeezed

MARK = re.compile(
    r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)|\\begin\{[a-zA-Z]{1,12}\}|\\end\{[a-zA-Z]{1,12}\}|\\[A-Za-z]+|\\.|[()\[\]{},;]"
    r"|(?<![A-Za-z\\])(?:or|and|oder|und|ou|et|или|и)(?![A-Za-z])|[或和及]|<=|>=|!=|==|[=<>]"
)
OPENING, CLOSING = ("(", "[", "{", r"\{", r"\langle"), (")", "]", "}", r"\}", r"\rangle")
JOINING = frozenset(
    ["or", "and", "oder", "und", "ou", "et", "или", "и", "或", "和", "及", ";", r"\lor", r"\vee", r"\land", r"\wedge"]
)
RELATIONS = {
    **{"=": "=", "==": "=", "<": "<", ">": ">", "<=": "<=", ">=": ">=", "!=": "!=", r"\leq": "<=", r"\geq": ">="},
    **{r"\neq": "!=", r"\in": "in", r"\equiv": "equiv", r"\approx": "approx", r"\sim": "approx", r"\subset": "subset"},
}
MATRIX = re.compile(r"\\begin\{(?:[pbB]?matrix|smallmatrix)\}(.*)\\end\{(?:[pbB]?matrix|smallmatrix)\}")
REALS = re.compile(r"\\mathbb\s?\{?\s?R\s?\}?")
SYSTEM = re.compile(r"\\begin\{(?:cases|aligned|align|matrix|array|split|gathered)\}(.*)\\end\{\w{4,8}\}")
PLUS_MINUS = re.compile(r"\\(?:pm|mp)(?![A-Za-z])")
SET_OF = re.compile(r"\s?[a-zA-Z]\s?(?:\\in\s?\\mathbb\s?\{?\s?R\s?\}?\s?)?[:|]\s?(.*[<>=\\].*)")  # x : x > 0
ZEROS = re.compile(r"(?<![\w.,])[1-9]\d{0,2}(?:,\d{3}){0,30},0\d\d(?![\d.]|,\d)")  # 1,000: nobody writes (1, 0) so
MOST = 200  # items


def read(text: str) -> Kind:
    """What a text in normal spelling is; a Formula where it is nothing else."""
    if rows := system(text):
        return listed(rows, True) if len(rows) > 1 else one(rows[0])
    items, words = pieces(text)
    if len(items) > 1:
        return listed(items, any(mark[0] in ("and", r"\land", r"\wedge") for mark in top(text)))
    if len(items) == 1 and not words:
        return one(items[0])
    return Formula(text)


def system(text: str) -> list[str]:
    r"""The rows of cases, and what stands after a \{ that nothing closes."""
    opened = text.startswith(r"\{") and r"\}" not in text
    inside = text.removeprefix(r"\{").strip() if opened else text
    if found := SYSTEM.fullmatch(inside):
        return (
            [row.strip(" ,;.&") for row in found[1].split(r"\\") if row.strip(" ,;.&")]
            if opened or "cases" in text
            else []
        )
    return [rf"\{{{inside}\}}"] if opened and inside else []


def one(text: str) -> Kind:
    """Without a list at its top."""
    text = text.strip()
    if PLUS_MINUS.search(text) and r"\{" not in text and r"\pmod" not in text:
        return listed(both(text))
    signs = [mark for mark in top(text) if mark[0] in RELATIONS]
    if signs and len(signs) < 10:
        texts = tuple(cut(text, [mark.span() for mark in signs]))
        if all(texts):
            return simpler(Relation(tuple(one(side) for side in texts), tuple(RELATIONS[m[0]] for m in signs), texts))
        return Formula(text)
    unions = [mark.span() for mark in top(text) if mark[0] == r"\cup"]
    if unions and len(unions) < MOST:
        return Union(tuple(one(part) for part in cut(text, unions)))
    if (found := MATRIX.fullmatch(unwrapped(text))) and r"\begin" not in found[1]:
        return matrix(found[1])
    if REALS.fullmatch(text):
        return Many((Formula(r"-\infty"), Formula(r"\infty")), "()")
    return bracketed(text) or Formula(text)


def listed(items: list[str], both_hold: bool = False) -> Kind:
    """n = 2, 3 and a = 1 or a = 2 are lists of values under one name, x < 2 or x > 3 is a union."""
    kinds = [kind for item in items[:MOST] for kind in spread(one(item))]
    first = kinds[0]
    ranges = [kind for kind in kinds if isinstance(kind, Relation) and kind.signs == ("in",)]
    if len(ranges) == len(kinds) > 1 and len({squeezed(kind.texts[0]) for kind in ranges}) == 1 and not both_hold:
        union = Union(tuple(kind.sides[1] for kind in ranges))
        return Relation((ranges[0].sides[0], union), ("in",), (ranges[0].texts[0], ""))
    if both_hold and (made := between(ranges, len(kinds))):
        return made
    if isinstance(first, Relation) and first.signs == ("=",) and NAME.fullmatch(first.texts[0]):
        label = first.texts[0]
        values = [unlabelled(kind, label) for kind in kinds]
        others = [kind for kind in kinds[1:] if isinstance(kind, Relation)]
        if len(others) in (0, len(kinds) - 1) and not any(isinstance(value, Relation) for value in values):
            return Relation((Formula(label), Many(tuple(values), "")), ("=",), (label, ", ".join(items)))
    return Many(tuple(kinds), "")


def between(ranges: list[Relation], count: int) -> Kind | None:
    """1 < x < 3 of `x > 1 and x < 3`."""
    if not len(ranges) == count == 2 or squeezed(ranges[0].texts[0]) != squeezed(ranges[1].texts[0]):
        return None
    sides = [side for one in ranges if isinstance(side := one.sides[1], Many)]
    low = [side for side in sides if side.items[1] == Formula(r"\infty")]
    high = [side for side in sides if side.items[0] == Formula(r"-\infty")]
    if len(low) != 1 or len(high) != 1:
        return None
    ends = (low[0].items[0], high[0].items[1])
    return interval(ranges[0].texts[0], ends, low[0].brackets[0] + high[0].brackets[-1])


def unlabelled(kind: Kind, label: str) -> Kind:
    """The right side of `x = 3` where the question named x."""
    if isinstance(kind, Relation) and kind.signs == ("=",) and squeezed(kind.texts[0]) == squeezed(label):
        return kind.sides[1]
    return kind


def spread(kind: Kind) -> tuple[Kind, ...]:
    """1 \\pm 2 within a list is two of its items."""
    return kind.items if isinstance(kind, Many) and not kind.brackets else (kind,)


def both(text: str) -> list[str]:
    """Upper signs together, then lower ones."""
    upper, lower = text.replace(r"\pm", "+").replace(r"\mp", "-"), text.replace(r"\pm", "-").replace(r"\mp", "+")
    return [upper, lower]


def matrix(inside: str) -> Kind:
    r"""Rows end at \\, cells at &."""
    rows = [row for row in re.split(r"\\\\", inside) if row.strip()]
    return Matrix(tuple(tuple(one(cell) for cell in row.split("&")) for row in rows))


def bracketed(text: str) -> Kind | None:
    """A tuple, an interval or a set; brackets around one value alone say nothing."""
    spans = brackets(text)
    if not spans or (spans[0][1], spans[1][0] + len(spans[1][2])) != (len(spans[0][2]), len(text)):
        return None
    opening, closing = spans[0][2], spans[1][2]
    inside = text[len(opening) : len(text) - len(closing)]
    numbers = ZEROS.search(inside) is not None
    items = [item for item in cut(inside, [mark.span() for mark in top(inside, numbers) if mark[0] in (",", ";")])]
    if opening == r"\{" and closing == r"\}":
        if found := SET_OF.fullmatch(inside):
            return one(found[1])
        if not all(items):
            return None
        return Many(tuple(kind for item in items for kind in spread(one(item))), r"\{\}")
    if len(items) > 1:
        return Many(tuple(one(item) for item in items), opening + closing) if all(items) else None
    return one(inside) if (opening, closing) in (("(", ")"), ("{", "}")) and inside.strip() else None


def unwrapped(text: str) -> str:
    """Without brackets around the whole, however many."""
    text = text.strip()
    while text[:1] in ("(", "[") and text[-1:] == {"(": ")", "[": "]"}[text[0]]:
        text = text[1:-1].strip()
    return text


def simpler(relation: Relation) -> Kind:
    """Bounds of one symbol are an interval: x >= 2, 1 < x <= 5. Left as they are where it is an equation."""
    names = [bool(NAME.fullmatch(text)) and text != r"\infty" for text in relation.texts]
    signs = relation.signs
    if len(signs) == 1 and signs[0] in BOUNDS and names in ([True, False], [False, True]):
        sign = signs[0] if names[0] else BOUNDS[signs[0]]
        bound, name = relation.sides[names[0]], relation.texts[not names[0]]
        if not constant(bound):
            return relation
        closed = "[" if "=" in sign else "("
        infinite = Formula(r"\infty" if sign[0] == ">" else r"-\infty")
        made = (bound, infinite) if sign[0] == ">" else (infinite, bound)
        ends = f"{closed})" if sign[0] == ">" else f"({']' if closed == '[' else ')'}"
        return interval(name, made, ends)
    if len(signs) == 2 and names == [False, True, False] and signs[0] in BOUNDS and signs[0][0] == signs[1][0]:
        low, high = (0, 2) if signs[0][0] == "<" else (2, 0)
        left, right = (signs[0], signs[1]) if low == 0 else (signs[1], signs[0])
        ends = ("[" if "=" in left else "(") + ("]" if "=" in right else ")")
        return interval(relation.texts[1], (relation.sides[low], relation.sides[high]), ends)
    return relation


def constant(bound: Kind) -> bool:
    """Not 1 + y, which no interval of x ends at for good."""
    return isinstance(bound, Formula) and bound.node is not None and symbols(bound.node) <= {"infty"}


BOUNDS = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def interval(name: str, ends: tuple[Kind, Kind], brackets: str) -> Kind:
    """`name in [a, b]`, as inequalities with two ends are read."""
    values = Many(ends, brackets)
    return Relation((Formula(name), values), ("in",), (name, ""))


def pieces(text: str) -> tuple[list[str], bool]:
    """Items between top-level commas and words that join, and whether a word left an item empty."""
    marks = [mark for mark in top(text) if mark[0] == "," or mark[0] in JOINING]
    items = cut(text, [mark.span() for mark in marks])
    kept = [item for item in items if item]
    return kept, len(kept) < len(items) and len(kept) < 2


def cut(text: str, spans: list[tuple[int, int]]) -> list[str]:
    """What is between the spans, from the start to the end."""
    ends = [0, *(end for _, end in spans)]
    return [
        text[start:stop].strip() for start, stop in zip(ends, [*(start for start, _ in spans), len(text)], strict=True)
    ]


def top(text: str, thousands: bool = True) -> Iterator[re.Match[str]]:
    """Marks outside of all brackets; 2,120 is none of them, but where commas always part."""
    depth = 0
    for mark in marks(text, thousands):
        if mark[0] in OPENING or mark[0].startswith(r"\begin"):
            depth += 1
        elif mark[0] in CLOSING or mark[0].startswith(r"\end"):
            depth -= 1
        elif depth == 0:
            yield mark


def marks(text: str, thousands: bool) -> Iterator[re.Match[str]]:
    """Brackets and separators; a comma in 1,234 is one only where thousands are not told apart."""
    place = 0
    while mark := MARK.search(text, place):
        if mark[0][0].isdigit() and not thousands:
            place = mark.start() + 1
            while place < len(text) and text[place].isdigit():
                place += 1
            if found := re.compile(",").match(text, place):
                yield found
                place += 1
            continue
        place = mark.end()
        yield mark


def brackets(text: str) -> list[tuple[int, int, str]]:
    """The first bracket and the one that closes it, each as (start, end, sign); none where that is not the last."""
    depth, first = 0, None
    for mark in MARK.finditer(text):
        if mark[0] in OPENING:
            first = first or (mark.start(), mark.end(), mark[0])
            depth += 1
        elif mark[0] in CLOSING:
            depth -= 1
            if depth == 0 and first and first[0] == 0:
                return [first, (mark.start(), mark.end(), mark[0])]
        elif first is None and mark.start() > 0:
            return []
    return []
