"""Which tokens do rules and limits act on? Lists with counts, from the answers that runs keep in samples.jsonl.

    isentropic words FOLDER [--top N]

A list for each credit rule, for each side of the clipping, and for each of the four sets of docs/metrics.md: the token,
how often it was in it, and that as a share of how often it was written at all.
"""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from isentropic.algorithm.diagnostics import QUADRANTS
from isentropic.runs.files import SAMPLES

Lists = dict[str, Counter[str]]  # of each list, how often each token is in it


def main(arguments: list[str]) -> None:
    made = ArgumentParser("isentropic words", description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    made.add_argument("folder", type=Path, help="of a run, or of several at any depth")
    made.add_argument("--top", type=int, default=20, metavar="N", help="tokens of each list")
    asked = made.parse_args(arguments)
    if asked.top < 1:
        raise SystemExit(f"error: --top {asked.top} must be at least 1")
    files = sorted(asked.folder.rglob(SAMPLES)) if asked.folder.is_dir() else []
    written, lists = count(line for file in files for line in lines_of(file))
    if not written:
        raise SystemExit(
            f"error: {asked.folder} holds no {SAMPLES} with answers; a run writes it with callbacks.samples"
        )
    print("\n".join(table(written, lists, asked.top)))


def lines_of(file: Path) -> Iterator[dict[str, Any]]:
    """Answers of this format; what a killed run left half-written is none."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and "texts" in found:
                yield found


def count(answers: Iterable[dict[str, Any]]) -> tuple[Counter[str], Lists]:
    """How often each token was written, and how often it is in each list."""
    written, lists = Counter[str](), defaultdict[str, Counter[str]](Counter)
    for answer in answers:
        texts = answer["texts"]
        written.update(texts)
        for kind in ("touched", "clipped"):
            for name, places in (answer.get(kind) or {}).items():
                lists[f"{'credit' if kind == 'touched' else 'clipped'} {name}"].update(texts[i] for i in places)
        for text, name in zip(texts, sets_of(answer), strict=True):
            if name:
                lists[name].update([text])
    return written, lists


def sets_of(answer: dict[str, Any]) -> list[str]:
    """Of each token its set, by the advantage before the rules and by surprisal; empty where one is not known."""
    unknown = [None] * len(answer["texts"])
    columns = [answer.get(name) or unknown for name in ("estimate", "logp", "entropy")]
    found: list[str] = []
    for advantage, logp, entropy in zip(*columns, strict=True):
        if not advantage or logp is None or entropy is None:
            found.append("")
            continue
        found.append(QUADRANTS[2 * (advantage < 0) + (-logp <= entropy)])
    return found


def table(written: Counter[str], lists: Lists, top: int) -> Iterator[str]:
    """Lists by name, each with its commonest tokens; equals in the order of the alphabet."""
    for name, tokens in sorted(lists.items()):
        whole = sum(tokens.values())
        yield f"\n{name}: {whole} of {sum(written.values())} tokens"
        for text, number in sorted(tokens.items(), key=lambda one: (-one[1], one[0]))[:top]:
            shown = json.dumps(text, ensure_ascii=False)
            yield f"  {shown:<24} {number:>8}  {number / written[text]:>6.1%} of its kind"


if __name__ == "__main__":
    main(sys.argv[1:])
