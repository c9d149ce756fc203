"""A checkpoint as a Hugging Face folder: the same model, whatever it was saved as."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel

from isentropic.batch import DTYPES
from isentropic.policy.checkpoint_checks import read
from isentropic.policy.checkpoint_files import weights_of
from isentropic.policy.model.identity import fingerprint, shape
from isentropic.policy.model.loading import whole
from isentropic.policy.model.lora import NAME, LoraSettings, is_adapter

PREFIX = "policy.lm."  # of a weight's name in a checkpoint


@dataclass(frozen=True)
class Request:
    """Raises ValueError for a folder that holds something."""

    ckpt: Path
    out: Path
    dtype: torch.dtype
    merge: bool  # adapters into the weights beside which they learnt
    model: str | None  # that training started from, where it is no longer where the checkpoint says

    def __post_init__(self) -> None:
        if self.out.exists() and not (self.out.is_dir() and not any(self.out.iterdir())):
            raise ValueError(f"out={self.out} is not an empty folder; give one that does not exist yet")


def export(request: Request) -> None:
    """Raises ValueError for a checkpoint that cannot be read, and for a model that it is not of."""
    content = read(str(request.ckpt))
    ours = content["isentropic"]
    adapter = ours.get("adapter")
    model = start_of(request, ours)
    check_model(model, ours)
    state = weights_of(request.ckpt) if request.ckpt.is_dir() else content["state_dict"]
    state = {name.removeprefix(PREFIX): value for name, value in state.items() if name.startswith(PREFIX)}
    unfinished = request.out.with_name(f"{request.out.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        if adapter and not request.merge:
            save_adapter(unfinished, low_rank(adapter), state, model)
        else:
            named = beside_base(low_rank(adapter), state, model) if adapter else state
            save_model(unfinished, named, model, request.dtype)
        tokenizer: Any = AutoTokenizer.from_pretrained(model)
        tokenizer.save_pretrained(unfinished)
        if request.out.exists():
            request.out.rmdir()
        os.replace(unfinished, request.out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def start_of(request: Request, ours: dict[str, Any]) -> str:
    """The model that training started from, whose configuration and tokenizer are the policy's. Else ValueError."""
    model = request.model or ours.get("path")
    if not model:
        raise ValueError(
            f"ckpt_path={request.ckpt} does not say which model it started from; give its folder by model=..."
        )
    return model


def check_model(model: str, ours: dict[str, Any]) -> None:
    """Raises ValueError for a model that is not there, of another shape, or with other weights than adapters had."""
    try:
        config = AutoConfig.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"the checkpoint started from {model}, which is not there, nor had from the hub or what is cached of it; "
            "give its folder by model=..."
        ) from error
    if shape(config) != ours["model"]:
        raise ValueError(
            f"{model} is another model than the one that the checkpoint started from; give that by model=..."
        )
    if ours.get("adapter") and ours["adapter"]["base"] != fingerprint(model):
        raise ValueError(
            f"{model} has other weights than those beside which the adapters learnt; give these by model=..."
        )


def low_rank(saved: dict[str, Any]) -> LoraSettings:
    """LoRA's settings as a checkpoint saved them."""
    return LoraSettings(saved["rank"], saved["alpha"], saved["targets"], saved["base_dtype"], seed=0)


def save_model(folder: Path, state: dict[str, Tensor], model: str, dtype: torch.dtype) -> None:
    """A Hugging Face folder of `model`'s kind with these weights, in this dtype."""
    lm = whole(model, AutoConfig.from_pretrained(model), dtype)
    lm.load_state_dict(state)  # which casts
    lm.save_pretrained(folder)


def beside_base(adapter: LoraSettings, state: dict[str, Tensor], model: str) -> dict[str, Tensor]:
    """The base's weights with the adapters added in, by the base's names; of any shape."""
    lm = injected(adapter, model)
    lm.load_state_dict(state, strict=False)
    return dict(adapter.merged(lm.state_dict()))


def injected(adapter: LoraSettings, model: str) -> PreTrainedModel:
    """The base in its own dtype, with adapters that have yet to be loaded."""
    lm = whole(model, AutoConfig.from_pretrained(model), DTYPES[adapter.base_dtype])
    adapter.inject(lm, model)
    return lm


def save_adapter(folder: Path, adapter: LoraSettings, state: dict[str, Tensor], model: str) -> None:
    """As peft names things; adapters stay in fp32."""
    folder.mkdir(parents=True)
    config = adapter.config(model)
    config.inference_mode = True
    config.save_pretrained(folder)
    named = {f"base_model.model.{name.replace(f'.{NAME}.', '.')}": state[name] for name in state if is_adapter(name)}
    save_file({name: value.contiguous() for name, value in named.items()}, folder / "adapter_model.safetensors")
