"""The folder of an evaluation: what it was told, which must be the same when it goes on."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import yaml
from transformers import PreTrainedTokenizerBase

from isentropic.evaluation.versions import versions
from isentropic.runs import files

VERSIONS = "versions.json"
MOST = 6  # differences that are listed
NO_ANSWER = (
    "subject", "folder", "batch", "dry_run", "base", "policy", "training", "paths", "server", "architectures",
    "changed",
)  # fmt: skip
OF_THE_MACHINE = (
    "path", "file", "timeout", "log", "devices", "device", "max_num_seqs", "max_num_batched_tokens", "kv_cache_gib",
    "workers", "cage", "memory", "gpu_memory_utilization", "tensor_parallel_size", "enforce_eager", "fast_decode",
    "transfer", "cudagraph_sequences",
)  # fmt: skip


def begin(folder: Path, settings: Mapping[str, Any]) -> None:
    """Writes config.yaml, or finds the same in it. Raises ValueError with what differs from what is there already."""
    file = folder / files.CONFIG
    if file.is_file():
        before = cast(dict[str, Any], yaml.safe_load(file.read_text(encoding="utf-8")) or {})
        found = list(differences(before, json.loads(json.dumps(settings))))
        if found:
            more = f"; and {len(found) - MOST} more" if len(found) > MOST else ""
            raise ValueError(
                f"{folder} holds an evaluation with other settings: {'; '.join(found[:MOST])}{more}; set them as they "
                "were to go on with it, or give another folder=..."
            )
        return
    files.write_whole(file, yaml.safe_dump(json.loads(json.dumps(settings)), sort_keys=False, allow_unicode=True))


def keep_versions(
    folder: Path, weights: str, tokenizer: PreTrainedTokenizerBase, dtype: str, data: Mapping[str, str], code: Path
) -> list[str]:
    """Writes versions.json, or says what is not as it was when the evaluation began, a sentence each."""
    file, now = folder / VERSIONS, versions(weights, tokenizer, dtype, data, code)
    if not file.is_file():
        files.write_whole(file, json.dumps(now, indent=2, ensure_ascii=False) + "\n")
        return []
    before = json.loads(file.read_text(encoding="utf-8"))
    return [f"going on with other versions: {difference}" for difference in differences(before, now)]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What decides answers and is not the same, a phrase each."""
    then, new = dict(leaves(before)), dict(leaves(now))
    for key in dict.fromkeys([*then, *new]):
        parts = key.split(".")
        if parts[0] in NO_ANSWER or parts[-1] in OF_THE_MACHINE:
            continue
        if then.get(key) != new.get(key):
            yield f"{key}={short(new.get(key))}, and it was {short(then.get(key))}"


def leaves(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values; lists are values."""
    if isinstance(node, Mapping) and node:
        for name, value in cast(Mapping[str, Any], node).items():
            yield from leaves(value, f"{key}.{name}" if key else str(name))
    else:
        yield key, node


def short(value: Any) -> str:
    """A setting in at most 60 characters."""
    text = "null" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
