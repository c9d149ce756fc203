"""The curve of pass@k over k as the points of a picture, which the page colours by its theme."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isentropic.reporting.render.run_curves import COLOURS

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 14, 68
DASHES = ("none", "9 4", "3 3", "9 3 2 3")


@dataclass(frozen=True)
class Line:
    """Of one set. `points` and `band`, of its 95 % interval, are of an SVG's polyline and polygon."""

    name: str
    points: str
    band: str
    marks: list[tuple[float, float]]
    colour: str
    dash: str


@dataclass(frozen=True)
class Curve:
    """Lines, ticks and axes in the units of an SVG of this width and height."""

    width: int
    height: int
    lines: list[Line]
    across: list[tuple[float, int]]  # places and numbers of the ticks
    up: list[tuple[float, str]]
    words: str  # for who does not see it
    frame: tuple[int, int, int, int]  # left, top, right and bottom of the axes


def curve(sets: Mapping[str, Sequence[Mapping[str, Any]]]) -> Curve:
    """Of each set pass@k with its interval at each k; k doubles at equal steps."""
    most = max(int(one["k"]) for points in sets.values() for one in points)
    ticks = sorted({int(one["k"]) for points in sets.values() for one in points if math.log2(one["k"]) % 1 == 0})

    def x(k: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * math.log2(k) / max(1, math.log2(most)), 1)

    def y(share: float) -> float:
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - share), 1)

    lines: list[Line] = []
    for index, (name, points) in enumerate(sets.items()):
        marks = [(x(one["k"]), y(one["value"])) for one in points]
        known = [one for one in points if one["low"] is not None]
        edge = [(x(one["k"]), y(one["high"])) for one in known] + [(x(one["k"]), y(one["low"])) for one in known[::-1]]
        turn = (index + index // len(COLOURS)) % len(DASHES)
        lines.append(Line(name, joined(marks), joined(edge), marks, COLOURS[index % len(COLOURS)], DASHES[turn]))
    words = "; ".join(f"{name} {points[0]['value']:.3f} to {points[-1]['value']:.3f}" for name, points in sets.items())
    frame = (LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM)
    up = [(y(share / 4), f"{share / 4:g}") for share in range(5)]
    return Curve(WIDTH, HEIGHT, lines, [(x(k), k) for k in ticks], up, f"pass@k from k = 1 to {most}: {words}", frame)


def joined(points: Sequence[tuple[float, float]]) -> str:
    """Points as SVG's polyline takes them."""
    return " ".join(f"{x},{y}" for x, y in points)
