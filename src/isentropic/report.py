"""Run folders in, one picture and one table out: `python -m isentropic.report PICTURE.png LABEL=FOLDER …`."""

import sys
from pathlib import Path

import numpy as np

from isentropic.reporting.curves import Run, compare, load

USAGE = "usage: python -m isentropic.report PICTURE.png LABEL=FOLDER [LABEL=FOLDER ...]"


def table(runs: list[Run]) -> str:
    """Markdown: entropy over the first, middle and last tenth of a run, and each score before and after it."""
    scores = sorted({name for run in runs for name in run.scores("")})
    names = [name.removeprefix("eval/") for name in scores]
    head = [
        "run",
        "rollouts",
        "entropy: start",
        "middle",
        "end",
        *(f"{n}: {when}" for n in names for when in ("base", "end")),
    ]
    rows = [head, ["---"] * len(head)]
    for run in runs:
        steps, entropy = run.metrics["entropy/mean"]
        tenth = max(1, len(entropy) // 10)
        middle = (len(entropy) - tenth) // 2
        parts = (entropy[:tenth], entropy[middle : middle + tenth], entropy[-tenth:])
        values = [run.metrics[name][1][place] for name in scores for place in (0, -1)]
        rows.append([run.label, f"{steps[-1]:.0f}", *(f"{x:.3f}" for x in [*map(np.mean, parts), *values])])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(arguments: list[str]) -> None:
    if len(arguments) < 2 or not all("=" in argument for argument in arguments[1:]):
        raise SystemExit(USAGE)
    labels, folders = zip(*(argument.split("=", 1) for argument in arguments[1:]), strict=True)
    try:
        runs = [load(Path(folder), label) for folder, label in zip(folders, labels, strict=True)]
        picture = compare([Path(folder) for folder in folders], labels, Path(arguments[0]))
    except ValueError as error:
        raise SystemExit(str(error)) from None
    print(table(runs))
    print(f"\npicture: {picture}")


if __name__ == "__main__":
    main(sys.argv[1:])
