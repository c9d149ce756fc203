"""What the files of a run folder are called, and how one is written whole."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

CONFIG = "config.yaml"  # resolved
CONFIG_SOURCES = "config_sources.txt"  # each value and where it came from
STATUS = "status.json"
CAGE = "cage.txt"  # what held answers while they were judged
METRICS = "metrics.csv"
SAMPLES = "samples.jsonl"  # completions, token by token
EXAMPLE = "example.txt"  # one prompt and its answer, as they are read
SCORES = "scores.json"  # of `isentropic eval`
PROBLEMS = "problems.jsonl"  # of an evaluation: what it asks
CURVES = "curves.png"
LOG = "train.log"  # what a run printed that others started
CHECKPOINTS = "checkpoints"
BEST_CHECKPOINT = f"{CHECKPOINTS}/best.ckpt"  # by an evaluation, where one is named
LAST_CHECKPOINT = f"{CHECKPOINTS}/last.ckpt"
HYDRA = ".hydra"
OVERRIDES = f"{HYDRA}/overrides.yaml"
MULTIRUN = "multirun.yaml"  # of a sweep, in the folder around its runs'
WEIGHTS = ("*.safetensors", "*.bin")  # in a model's folder


def check_place(checkpoint: str, called: str = "ckpt_path") -> None:
    """Raises ValueError where there is none, with those beside it."""
    path = Path(checkpoint)
    if not path.exists():
        near = sorted(str(p) for p in path.parent.glob("*.ckpt"))
        there = f"; there are {', '.join(near)}" if near else "; its folder has no checkpoint"
        raise ValueError(f"{called}={checkpoint} does not exist{there}")


def check_not_around(checkpoint: str, called: str = "ckpt_path") -> None:
    """Raises ValueError for the folder of a run or of its checkpoints, with what is there."""
    patterns = ("*.ckpt", f"{CHECKPOINTS}/*.ckpt")
    if inside := sorted(str(path) for pattern in patterns for path in Path(checkpoint).glob(pattern)):
        raise ValueError(f"{called}={checkpoint} is a folder of checkpoints; name one of {', '.join(inside)}")


def check_evaluation(folder: Path) -> None:
    """Raises ValueError for a folder that is not of an evaluation."""
    if not (folder / PROBLEMS).is_file():
        raise ValueError(f"{folder} holds no {PROBLEMS}; it is not the folder of an evaluation")


def check_replaceable(file: Path, keys: Sequence[str]) -> None:
    """Raises ValueError for a file that is no JSON record with these keys, and would be lost."""
    if not file.exists():
        return
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or not all(key in found for key in keys):
        raise ValueError(f"{file} is there, and holds something else than what would be written; give another name")


def write_whole(file: Path, text: str) -> None:
    """A reader finds the old content or the new, never a part of it."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, file)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
