"""One completion as the token page reads it: what each token was, and what was made of it. docs/tokens.md has the keys.

Lines of `samples.jsonl` may be of any age; what an older one does not say is derived where that is safe, or is null.
"""

import re
from collections import Counter
from collections.abc import Sequence
from math import isfinite
from typing import Any

Answer = dict[str, Any]
Number = float | None
Values = Sequence[Number] | Number  # of each token, one number for all of them, or not known

QUADRANTS = ("positive_surprising", "positive_expected", "negative_surprising", "negative_expected", "neutral")
UNKNOWN = len(QUADRANTS)
DIGITS = 4
SMALLEST = 1e-5
PIECE = re.compile(r"<[^<>\s]{1,20}>|.", re.DOTALL)  # tokens of a tokenizer of characters


def of_line(line: dict[str, Any]) -> Answer:
    """Of a line of `samples.jsonl`; its lists must be as long as `logp`."""
    count, kept = len(line["logp"]), line.get("kept")
    credit, entropy = column(line, "advantages"), column(line, "entropy")
    estimate, weight = column(line, "estimate"), column(line, "weight")
    derived = estimate is None and credit is not None
    if derived:
        usual = commonest(credit or [])
        estimate = None if usual is None else [usual for _ in line["logp"]]
        weight = None if usual is None else [ratio_of(value, usual) for value in credit or []]
    return {
        "step": line.get("step"),
        "group": str(line.get("group", "")),
        "prompt": str(line.get("prompt", "")),
        "completion": str(line.get("completion", "")),
        "reward": packed([line.get("reward")] if isinstance(line.get("reward"), int | float) else None),
        "correct": line.get("correct"),
        "truncated": bool(line.get("truncated")),
        "texts": pieces(line, count),
        "surprisal": packed(surprisals(line["logp"])),
        "entropy": packed(entropy),
        "estimate": packed(estimate),
        "weight": packed(weight),
        "credit": packed(credit),
        "quadrant": quadrants(estimate or [], line["logp"], entropy or []),
        "ratio": packed(column(line, "ratio")),
        "limits": {name: packed(value) for name, value in limits(line).items()},
        "dropped": [place for place, kept in enumerate(kept if isinstance(kept, list) else []) if kept is False],
        "touched": places(line, "touched"),
        "clipped": places(line, "clipped"),
        "derived": derived,
        "observed": observed(line),
    }


def observed(line: dict[str, Any]) -> list[list[Any]]:
    """By the place of the token that follows, what was read between turns and not written."""
    given = line.get("observed")
    pairs = [one for one in given if isinstance(one, list) and len(one) == 2] if isinstance(given, list) else []
    return [[place, str(text)] for place, text in pairs if isinstance(place, int)]


def column(line: dict[str, Any], key: str) -> list[Number] | None:
    """A number or null for each token; None for anything else."""
    values = line.get(key)
    return values if isinstance(values, list) and numeric(values) and len(values) == len(line["logp"]) else None


def numeric(values: Any) -> bool:
    return isinstance(values, list) and all(value is None or isinstance(value, int | float) for value in values)


def places(line: dict[str, Any], key: str) -> dict[str, list[int]] | None:
    """By rule or side, the tokens it acted on."""
    found = line.get(key)
    return found if isinstance(found, dict) and all(isinstance(one, list) for one in found.values()) else None


def limits(line: dict[str, Any]) -> dict[str, Any]:
    given = line.get("limits")
    ends: dict[str, Any] = given if isinstance(given, dict) else {}
    return {name: value for name, value in ends.items() if isinstance(value, int | float) or numeric(value)}


def surprisals(logp: Sequence[Number]) -> list[Number]:
    return [None if value is None else -value or 0.0 for value in logp]


def packed(values: Values) -> Values:
    """One number where all are equal, and no more digits than can be seen."""
    if values is None or isinstance(values, int | float):
        return values
    short = [None if value is None or not isfinite(value) else shortened(value) for value in values]
    return short[0] if short and len(set(short)) == 1 else short


def shortened(value: float) -> float:
    return float(f"{value:.{DIGITS}g}") if abs(value) >= SMALLEST else 0.0


def commonest(values: Sequence[Number]) -> Number:
    """What more than half of the tokens have: the advantage of an answer, before rules that touch few of its tokens."""
    found = Counter(values).most_common(1)
    return found[0][0] if found and found[0][1] * 2 > len(values) else None


def ratio_of(credit: Number, estimate: float) -> Number:
    if credit == estimate:
        return 1.0
    return None if credit is None or estimate == 0 else credit / estimate


def quadrants(estimate: Sequence[Number], logp: Sequence[Number], entropy: Sequence[Number]) -> str:
    """A digit for each token: its place in QUADRANTS, or UNKNOWN."""
    known = len(estimate) == len(logp) == len(entropy)
    return "".join(
        str(quadrant(*values)) for values in (zip(estimate, logp, entropy, strict=True) if known else ())
    ) or str(UNKNOWN) * len(logp)


def quadrant(advantage: Number, logp: Number, entropy: Number) -> int:
    if advantage == 0:
        return QUADRANTS.index("neutral")
    if advantage is None or logp is None or entropy is None:
        return UNKNOWN
    return 2 * (advantage < 0) + (-logp <= entropy)


def pieces(line: dict[str, Any], count: int) -> list[str]:
    """The text of each token; of older files only where every character is one, and ids or places elsewhere."""
    texts = line.get("texts")
    if isinstance(texts, list) and len(texts) == count:
        return [str(text) for text in texts]
    found = PIECE.findall(str(line.get("completion", "")))
    if len(found) == count:
        return found
    tokens = line.get("tokens")
    labels = tokens if isinstance(tokens, list) and len(tokens) == count else range(count)
    return [f"#{label}" if isinstance(label, int) else str(label) for label in labels]
