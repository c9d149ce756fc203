"""Seconds to find test problems in training sets, one core, and how many there are of each kind.

    python benchmarks/contamination.py FOLDER --out benchmarks/results/contamination.json

FOLDER holds the sets as files, as `paths.data` does; those that are not there are left out.
"""

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

from isentropic.commands.contamination import of_file
from isentropic.evaluation.contamination import LIMITS, seen

TRAINING = ("dapo_math_17k/dapo_math_17k.parquet", "deepmath_5k/math_deepmath_deal.jsonl", "gsm8k/train.jsonl")
TESTS = (
    "aime24/test.json", "aime25/test.jsonl", "amc23/test.jsonl", "math500/test.jsonl", "minerva_math/test.jsonl",
    "olympiadbench/test.jsonl", "gsm8k/test.jsonl",
)  # fmt: skip


def measured(folder: Path, training: str, tests: dict[str, list[str]]) -> dict[str, Any]:
    begun = time.process_time()
    questions = list(of_file("train", str(folder / training), None))
    read = time.process_time() - begun
    found = seen(questions, tests)
    kinds = {
        name: {kind: len(getattr(one, kind)) for kind in ("exact", "wrapped", "near", "any")}
        for name, one in found.items()
    }
    seconds = {"reading": round(read, 2), "all": round(time.process_time() - begun, 2)}
    return {"problems": len(questions), "seconds": seconds, "tests": kinds}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    there = [name for name in TESTS if (asked.folder / name).is_file()]
    tests = {name: list(of_file("test", str(asked.folder / name), None)) for name in there}
    found = {name: measured(asked.folder, name, tests) for name in TRAINING if (asked.folder / name).is_file()}
    seconds = sum(one["seconds"]["all"] for one in found.values())
    made = {
        "processor": platform.processor() or platform.machine(),
        "seconds of one core": round(seconds, 2),
        "limits": LIMITS,
        "problems": {name: len(questions) for name, questions in tests.items()},
        "training": found,
    }
    text = json.dumps(made, indent=1) + "\n"
    print(text)
    if asked.out:
        asked.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
