"""What a report's intervals and claims hold: made-up scores of seeds, as often as it takes to see one in a hundred.

python benchmarks/inference.py --out benchmarks/results/inference.json --table docs/statistics.md
"""

import json
import re
from argparse import ArgumentParser
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.signal import lfilter
from scipy.stats import sem
from scipy.stats import t as student

from isentropic.reporting.analysis.estimate import changes, curve, holm
from isentropic.reporting.analysis.power import CHANCE, findable
from isentropic.reporting.analysis.significance import ENOUGH
from isentropic.reporting.analysis.trend import slope

SEEDS, GROUPS, METRICS = (3, 4, 5, 8, 10, 16), (2, 13), 3
SPREAD, SHARED = 0.03, 0.5  # of a seed's score; share of its variance that seeds of one number have in common
COLLAPSED, LOSS = 0.2, 0.3  # share of seeds that collapse, and how far they fall
MEMORY = (0.0, 0.5, 0.8, 0.9, 0.95)  # of noise about a curve, from one rollout to the next
LENGTHS = (65, 130, 325)  # rollouts of the last half
START, END = "<!-- inference: written by benchmarks/inference.py -->", "<!-- end of inference -->"


def drawn(draw: np.random.Generator, kind: str, shape: tuple[int, ...], paired: bool) -> np.ndarray:
    """Scores by seeds, metrics, groups and repetitions, of equal groups; pairs share a part of what is their seed's."""
    own = draw.normal(size=shape)
    if paired:
        common = draw.normal(size=(shape[0], shape[1], 1, shape[3]))
        own = np.sqrt(SHARED) * common + np.sqrt(1 - SHARED) * own
    lost = draw.random((shape[0], 1, *shape[2:])) < COLLAPSED if kind == "collapse" else False  # by all metrics alike
    return 0.5 + SPREAD * own - LOSS * lost


def one(draw: np.random.Generator, kind: str, seeds: int, paired: bool, groups: int, count: int) -> dict[str, Any]:
    """Coverage of means and of differences; reports that claim or suggest anything where all groups are equal."""
    scores = drawn(draw, kind, (seeds, METRICS, groups, count), paired)
    truth = 0.5 - (LOSS * COLLAPSED if kind == "collapse" else 0.0)
    _, low, high = curve(scores[:, 0, 0])
    found = changes(scores[:, :, 1:], np.broadcast_to(scores[:, :, :1], scores[:, :, 1:].shape), paired)
    chances = np.moveaxis(found.p, -1, 0)  # by repetitions, metrics, groups
    families = holm(chances[:, 0], groups - 1), holm(chances.reshape(count, -1), METRICS * (groups - 1))
    primary, every = (float((family < CHANCE).any(1).mean()) for family in families)
    claims = seeds >= ENOUGH  # else the report suggests at most
    return {
        "data": kind,
        "seeds": seeds,
        "paired": paired,
        "groups": groups,
        "mean": float(((low <= truth) & (truth <= high)).mean()),
        "difference": float(((found.low <= 0) & (found.high >= 0))[0].mean()),
        "primary": primary * claims,
        "all": every * claims,
        "without_limit": every,  # if fewer seeds could claim too
        "suggested": float((chances[:, 0] < CHANCE).mean()),
    }


def trends(draw: np.random.Generator, memory: float, length: int, count: int) -> dict[str, Any]:
    """How often noise without a trend, and a line that moves by four of its deviations, are called a trend."""
    noise = lfilter([1], [1, -memory], draw.normal(size=(count, length + 300)), axis=1)[:, 300:]
    line = np.linspace(0, 4 * noise.std(), length)
    steps = np.arange(length)
    flat, moved = ([slope(steps, one + more)[1] < CHANCE for one in noise] for more in (0, line))
    return {"memory": memory, "rollouts": length, "false": float(np.mean(flat)), "found": float(np.mean(moved))}


def tried(draw: np.random.Generator, seeds: int, count: int) -> dict[str, Any]:
    """What else an interval of a mean could be, by its coverage: of normal seeds, and where one in five collapses."""
    found: dict[str, Any] = {"seeds": seeds, "none_collapsed": (1 - COLLAPSED) ** seeds}
    for kind, truth in (("normal", 0.5), ("collapse", 0.5 - LOSS * COLLAPSED)):
        scores = drawn(draw, kind, (seeds, 1, 1, count), paired=False)[:, 0, 0]
        means = scores[draw.integers(seeds, size=(1000, seeds, 1)), np.arange(count)].mean(1)
        middle, reach = np.median(scores, axis=0), student.ppf(0.995, seeds - 1) * sem(scores, axis=0)
        ends = {
            "t": curve(scores)[1:],
            "percentile": tuple(np.percentile(means, [2.5, 97.5], axis=0)),
            "basic": tuple(2 * scores.mean(0) - end for end in np.percentile(means, [97.5, 2.5], axis=0)),
            "range": (scores.min(0), scores.max(0)),
            "t of 99 %": tuple(scores.mean(0) + way * reach for way in (-1, 1)),
            "median ± range": (middle - np.ptp(scores, axis=0), middle + np.ptp(scores, axis=0)),
        }
        found[kind] = {name: float(((low <= truth) & (truth <= high)).mean()) for name, (low, high) in ends.items()}
    return found


def powers() -> list[dict[str, Any]]:
    """Least differences, in standard deviations, by seeds and comparisons."""
    return [
        {"seeds": n, "paired": paired, **{str(c): round(findable(n, n, paired, c), 2) for c in (1, 5, 12, 36)}}
        for paired, n in product((True, False), (3, 5, 8, 10, 16, 32))
    ]


def page(found: dict[str, Any]) -> str:
    """The tables of docs/statistics.md."""
    parts = [
        [
            "| seeds | data | pairs | mean | difference | claims, 2 groups | 13 groups | no primary metric, 2 | 13"
            " | suggested |",
            "| --- " * 10 + "|",
        ]
    ]
    cells = {(r["data"], r["seeds"], r["paired"], r["groups"]): r for r in found["claims"]}
    for seeds, kind, paired in product(SEEDS, ("normal", "collapse"), (True, False)):
        two, many = (cells[kind, seeds, paired, groups] for groups in GROUPS)
        values = [
            two["mean"],
            two["difference"],
            two["primary"],
            many["primary"],
            two["all"],
            many["all"],
            two["suggested"],
        ]
        words = "one seed in five collapses" if kind == "collapse" else "normal"
        row = [str(seeds), words, "yes" if paired else "no", *(f"{value:.3f}" for value in values)]
        parts[0].append(f"| {' | '.join(row)} |")
    ways = list(found["tried"][0]["normal"])
    parts.append(
        [f"| seeds | none collapses | data | {' | '.join(ways)} |".replace("_", " "), "| --- " * (3 + len(ways)) + "|"]
    )
    for row in found["tried"]:
        for kind, words in (("normal", "normal"), ("collapse", "one seed in five collapses")):
            shares = " | ".join(f"{row[kind][way]:.3f}" for way in ways)
            parts[-1].append(f"| {row['seeds']} | {row['none_collapsed']:.2f} | {words} | {shares} |")
    parts.append(["| memory | rollouts | called a trend, of noise alone | of a trend |", "| --- | --- | --- | --- |"])
    parts[-1] += [f"| {r['memory']} | {r['rollouts']} | {r['false']:.3f} | {r['found']:.2f} |" for r in found["trends"]]
    parts.append(["| seeds | pairs | 1 comparison | 5 | 12 | 36 |", "| --- " * 6 + "|"])
    for r in found["power"]:
        cells_ = [f"{r[c]:.2f}" for c in ("1", "5", "12", "36")]
        parts[-1].append(f"| {r['seeds']} | {'yes' if r['paired'] else 'no'} | {' | '.join(cells_)} |")
    titles = ("Coverage and claims", "Other intervals of a mean, by their coverage", "Trends", "Power")
    return "\n\n".join(f"### {title}\n\n" + "\n".join(lines) for title, lines in zip(titles, parts, strict=True))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="reports of each kind")
    parser.add_argument("--curves", type=int, default=2_000, help="of each kind")
    parser.add_argument("--out", type=Path, help="where all is written as JSON")
    parser.add_argument("--table", type=Path, help="a page whose tables are written anew")
    asked = parser.parse_args(arguments)
    draw = np.random.default_rng(0)
    kinds = product(("normal", "collapse"), SEEDS, (True, False), GROUPS)
    found: dict[str, Any] = {
        "count": asked.count,
        "claims": [one(draw, *kind, asked.count) for kind in kinds],
        "trends": [trends(draw, memory, length, asked.curves) for memory, length in product(MEMORY, LENGTHS)],
        "tried": [tried(np.random.default_rng(seeds), seeds, asked.curves) for seeds in SEEDS],
        "power": powers(),
    }
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")
    if asked.table:
        text = asked.table.read_text(encoding="utf-8")
        made = re.sub(f"{START}.*{END}", lambda _: f"{START}\n\n{page(found)}\n\n{END}", text, flags=re.DOTALL)
        asked.table.write_text(made, encoding="utf-8")
    print(page(found))


if __name__ == "__main__":
    main()
