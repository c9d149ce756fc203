"""A file of completions back to a batch: `samples.jsonl` of a run, or a few completions written by hand.

One completion is one JSON object; a file is a list of them, or one per line. docs/inspect.md lists the keys.
"""

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import torch

from isentropic.batch import PerToken, ScoredBatch, TokenStats
from isentropic.runs.completions import observed
from isentropic.runs.files import SAMPLES

Completion = dict[str, Any]
NEEDED = ("logp", "entropy", "reward", "group")
PER_TOKEN = ("logp", "entropy", "sensitivity", "sampler_logp", "ref_logp", "new_logp", "new_entropy", "new_sensitivity")
READ = ("correct", "truncated", "tokens", "texts", "step", "prompt", "turn", "observed")
LEFT = ("completion", "segments", "estimate", "advantages", "weight", "ratio", "kept", "limits", "clipped", "touched")
OTHERS = (*READ, *LEFT, "staleness")


@dataclass(frozen=True)
class Saved:
    """Completions start in the first column. What the file does not say is NaN."""

    batch: ScoredBatch
    now: TokenStats  # at the update; the policy that sampled where the file has no new_ values
    labels: list[list[str]]  # of each token
    prompts: list[str]  # of each completion; empty where unknown
    step: int | None  # of the run
    observed: list[dict[int, str]]  # of each completion, what was read before the token of a place


def load(path: Path, step: int | None) -> Saved:
    """Of a run folder, its samples.jsonl; `step` is the run's, None for the last.

    Raises ValueError, of one sentence with the number of the completion, for a file that is not of this format.
    """
    file = path / SAMPLES if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"rollouts={path} does not exist" + (", or has no samples.jsonl" if path.is_dir() else ""))
    completions = parse(file.read_text(encoding="utf-8"), str(file))
    for number, completion in enumerate(completions, start=1):
        check(completion, f"{file}: completion {number}")
    steps = sorted({c["step"] for c in completions if "step" in c})
    step = step if step is not None or not steps else steps[-1]
    chosen = [c for c in completions if c.get("step") == step or "step" not in c]
    if not chosen or (step is not None and step not in steps):
        there = f"there are {', '.join(map(str, steps))}" if steps else "its completions have no step"
        raise ValueError(f"step={step} is not in {file}; {there}")
    return batch_of(chosen, step)


def parse(text: str, file: str) -> list[Completion]:
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        if text.lstrip().startswith("["):
            raise ValueError(f"{file}: line {error.lineno} is not JSON ({error.msg})") from None
        whole = [parse_line(line, n, file) for n, line in enumerate(text.splitlines(), start=1) if line.strip()]
    completions = whole if isinstance(whole, list) else [whole]
    if not completions:
        raise ValueError(f"{file} holds no completion")
    for number, completion in enumerate(completions, start=1):
        if not isinstance(completion, dict):
            kind = type(completion).__name__
            raise ValueError(f"{file}: completion {number} is a {kind}; it must be an object with {listed(NEEDED)}")
    return completions


def parse_line(line: str, number: int, file: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{file}: line {number} is not JSON ({error.msg})") from None


def check(completion: Completion, where: str) -> None:
    for key in completion:
        if key not in (*NEEDED, *PER_TOKEN, *OTHERS):
            closest = difflib.get_close_matches(key, (*NEEDED, *PER_TOKEN, *OTHERS), n=1)
            hint = (
                f"; did you mean {closest[0]}?"
                if closest
                else f"; known are {listed((*NEEDED, *PER_TOKEN[2:], *OTHERS))}"
            )
            raise ValueError(f"{where} has the unknown key {key}{hint}")
    for key in NEEDED:
        if completion.get(key) is None:
            raise ValueError(f"{where} lacks {key}; each completion needs {listed(NEEDED)}")
    for key in ("logp", *PER_TOKEN[1:], "tokens", "texts", "turn"):
        check_list(completion, key, where)
    for key, kind, what in (("reward", (int, float), "a number"), ("correct", bool, "true or false"),
                            ("truncated", bool, "true or false"), ("step", int, "a whole number")):  # fmt: skip
        value = completion.get(key)
        if key in completion and (not isinstance(value, kind) or (kind is not bool and isinstance(value, bool))):
            raise ValueError(f"{where}: {key}={value} is not {what}")


def check_list(completion: Completion, key: str, where: str) -> None:
    values = completion.get(key)
    if values is None:
        return
    if not isinstance(values, list):
        raise ValueError(f"{where}: {key}={values} is not a list with one value per token")
    if len(values) != len(completion["logp"]):
        raise ValueError(f"{where} has {len(completion['logp'])} values of logp and {len(values)} of {key}")
    for place, value in enumerate(values):
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if key not in ("tokens", "texts") and not fits and not (value is None and key != "logp"):
            raise ValueError(f"{where}: {key} at place {place} is {json.dumps(value)}, not a number")
        if key.endswith("logp") and value is not None and value > 0:
            raise ValueError(f"{where}: {key} at place {place} is {value}; the log of a probability is not above 0")


def batch_of(completions: Sequence[Completion], step: int | None) -> Saved:
    lengths = torch.tensor([len(c["logp"]) for c in completions])
    width = max(1, int(lengths.max()))
    mask = torch.arange(width) < lengths[:, None]

    def values(key: str, otherwise: str = "") -> PerToken:
        lists = [c.get(key) or c.get(otherwise) or [] for c in completions]
        known = [[nan if value is None else value for value in row] for row in lists]
        return torch.tensor([row + [nan] * (width - len(row)) for row in known], dtype=torch.float64)

    numbers = {group: number for number, group in enumerate(dict.fromkeys(str(c["group"]) for c in completions))}
    reward = torch.tensor([c["reward"] for c in completions], dtype=torch.float64)
    batch = ScoredBatch(
        tokens=torch.zeros_like(mask, dtype=torch.long),
        mask=mask,
        group=torch.tensor([numbers[str(c["group"])] for c in completions]),
        reward=reward,
        correct=torch.tensor([bool(c.get("correct", c["reward"] > 0)) for c in completions]),
        truncated=torch.tensor([bool(c.get("truncated", False)) for c in completions]),
        sampler_logp=values("sampler_logp"),
        old_logp=values("logp"),
        old_entropy=values("entropy"),
        old_sensitivity=values("sensitivity"),
        ref_logp=values("ref_logp"),
        turn=values("turn").nan_to_num().long(),
    )
    now = TokenStats(*(values(f"new_{key}", key) for key in ("logp", "entropy", "sensitivity")))
    labels = [[str(t) for t in c.get("texts") or c.get("tokens") or range(len(c["logp"]))] for c in completions]
    read = [{int(place): str(text) for place, text in observed(c)} for c in completions]
    return Saved(batch, now, labels, [str(c.get("prompt", "")) for c in completions], step, read)


def listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
