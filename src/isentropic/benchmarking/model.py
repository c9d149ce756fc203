"""A folder of random weights that answers without end, so that every answer has the length that is asked for."""

import fcntl
import gc
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from omegaconf import OmegaConf
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedTokenizerFast


def sizes(name: str, known: Mapping[str, str | Mapping[str, Any]], table: str) -> dict[str, Any]:
    """What stands in config.json. Raises ValueError for a name that neither `known` nor the `table` has."""
    entry = known.get(name, name)
    if isinstance(entry, str):
        public = cast(dict[str, dict[str, Any]], OmegaConf.to_container(OmegaConf.load(table)))
        if entry not in public:
            raise ValueError(f"benchmark.model={name} is not known; known are {', '.join([*known, *public])}")
        entry = public[entry]
    return dict(entry) | {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}


def config(entry: Mapping[str, Any]) -> PretrainedConfig:
    own = {key: value for key, value in entry.items() if key != "model_type"}
    return AutoConfig.for_model(entry["model_type"], **own)


def write(folder: Path, entry: Mapping[str, Any]) -> None:
    """Once, whichever rank comes first. Raises ValueError where the folder holds another model."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = folder.with_name(f"{folder.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            save_model(unfinished, entry)
            save_tokenizer(unfinished / "tokenizer", int(entry["vocab_size"]))
            os.replace(unfinished, folder)
    found = AutoConfig.from_pretrained(folder).to_dict()
    for key, value in entry.items():
        if found.get(key) != value:
            raise ValueError(
                f"benchmark.folder={folder} holds a model with {key}={found.get(key)}, and {value} is asked for; take "
                "another folder, or delete it"
            )


def save_model(folder: Path, entry: Mapping[str, Any]) -> None:
    """In bf16, made on the GPU where there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.random.fork_rng([torch.cuda.current_device()] if device == "cuda" else []), torch.device(device):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config(entry), dtype=torch.bfloat16)
    model.save_pretrained(folder)
    del model
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def save_tokenizer(folder: Path, vocabulary: int) -> None:
    """A word for each id, w0 to the last after two others, and no end token.

    In a folder of its own: beside a config of Qwen2's, transformers takes any tokenizer for Qwen2's.
    """
    names = ["<pad>", "<unknown>", *(f"w{i}" for i in range(vocabulary - 2))]
    words = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unknown>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # pyright: ignore[reportAttributeAccessIssue]
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>").save_pretrained(folder)
    (folder / "config.json").write_text('{"transformers_version": "5.0.0"}\n')
