"""Two evaluations of the same problems: which subject is better, and what could not have been found.

    isentropic compare FOLDER FOLDER [--sets SET,SET] [--out FILE]

Differences are of the first minus the second, paired by problem: their 95 % bootstrap interval, an exact test (or one
of 20,000 drawn patterns of signs), Holm's correction over sets, and the smallest difference that four such comparisons
in five would find. Writes compare.json, by default into the first folder. Evaluations with other problems, prompts,
decoding or graders are refused, with a list of what differs.
"""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from isentropic.config.refused import refuse
from isentropic.runs.files import check_evaluation, check_replaceable, write_whole

if TYPE_CHECKING:
    from isentropic.evaluation.paired import Difference

FILE = "compare.json"
SAID = {
    "higher": "the first is higher than the second",
    "lower": "the first is lower than the second",
    "suggests higher": "the first looks higher, which is suggested, not shown",
    "suggests lower": "the first looks lower, which is suggested, not shown",
    "open": "they cannot be told apart",
    "one problem": "one problem has no interval, and nothing is claimed",
}


def main(arguments: list[str]) -> None:
    asked = parser().parse_args(arguments)
    only = asked.sets.split(",") if asked.sets else []
    for folder in (asked.first, asked.second):
        if not folder.is_dir():
            refuse(f"there is no folder {folder}; give that of an evaluation")
    try:
        check_evaluation(asked.first)
        check_evaluation(asked.second)
        out = asked.out or asked.first / FILE
        check_replaceable(out, ("first", "second", "sets"))
        found = compared(asked.first, asked.second, only)
        write_whole(out, text_of(asked.first, asked.second, found))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    print("\n".join([*(sentence(one) for one in found), "", f"written: {out}"]))


def parser() -> ArgumentParser:
    made = ArgumentParser("isentropic compare", description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    made.add_argument("first", type=Path, metavar="FOLDER", help="of an evaluation")
    made.add_argument("second", type=Path, metavar="FOLDER", help="of another, on the same problems")
    made.add_argument("--sets", metavar="SET,SET", help="to compare on these sets alone")
    made.add_argument("--out", type=Path, metavar="FILE", help="where the comparison is written")
    return made


def compared(first: Path, second: Path, only: Sequence[str] = ()) -> "list[Difference]":
    """Raises ValueError for folders that are none, are not finished or cannot be compared."""
    from isentropic.evaluation.comparable import paired
    from isentropic.evaluation.paired import differences

    return differences(*paired(first, second, only))


def text_of(first: Path, second: Path, found: "Sequence[Difference]") -> str:
    made = {"first": str(first), "second": str(second), "sets": [asdict(one) for one in found]}
    return json.dumps(made, indent=1, allow_nan=False) + "\n"


def sentence(found: "Difference") -> str:
    ends = f" [{found.low:+.3f}, {found.high:+.3f}]" if found.low is not None and found.high is not None else ""
    least = "" if found.smallest is None else f"; a difference of {found.smallest:.3f} would be found in 80 % of cases"
    return (
        f"{found.set}: {SAID[found.verdict]}: {found.ours:.3f} and {found.theirs:.3f}, difference {found.mean:+.3f}"
        f"{ends} over {found.problems} problems, p {chance(found.corrected)} after Holm ({found.test}){least}."
    )


def chance(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"


if __name__ == "__main__":
    main(sys.argv[1:])
