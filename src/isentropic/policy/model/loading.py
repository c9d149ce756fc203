"""A model from its folder. Where it is sharded, each rank reads only its own part, and none ever holds the whole."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.utils.hub import cached_file, get_checkpoint_shard_files

from isentropic.pretrained import pretrained

BASE = ".base_layer."  # what peft puts into the name of a weight beside which it has set an adapter
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
MAY_LACK = {"_raise_exceptions_for_missing_entries": False}


def whole(path: str, config: PretrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    """A model folder, or a name on the hub, as transformers loads it. Raises ValueError for one without all weights."""
    return pretrained(path, config=config, dtype=dtype)


def skeleton(path: str, config: PretrainedConfig, dtype: torch.dtype) -> PreTrainedModel | None:
    """The model without its weights, which `fill` reads; buffers are as they should be.

    None where the folder holds no safetensors, or other names and shapes than the model, so that only transformers can
    tell what they mean: then it must be loaded whole.
    """
    with parameters_on_meta():
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    shapes: dict[str, list[int]] = {}
    for file in files(path):
        with safe_open(file, "pt") as content:
            shapes |= {name: content.get_slice(name).get_shape() for name in content.keys()}  # noqa: SIM118
    known = all(
        any(shapes.get(name) == list(value.shape) for name in names) for names, value in by_names(model, buffers=True)
    )
    return model if known else None


@contextmanager
def parameters_on_meta() -> Generator[None]:
    """Inside, modules are made with parameters that take no memory. Buffers, which files may lack, are real."""
    register = nn.Module.register_parameter

    def on_meta(module: nn.Module, name: str, param: nn.Parameter | None) -> None:
        if param is not None and not param.is_meta:
            param = nn.Parameter(param.to("meta"), param.requires_grad)
        register(module, name, param)

    nn.Module.register_parameter = on_meta  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        nn.Module.register_parameter = register


def by_names(model: nn.Module, buffers: bool) -> Iterator[tuple[list[str], Tensor]]:
    """Each tensor of the model's state once, with all names that it has there."""
    names: dict[int, list[str]] = {}
    tensors: dict[int, Tensor] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        if buffers or isinstance(value, nn.Parameter):
            names.setdefault(id(value), []).append(name)
            tensors[id(value)] = value
    return ((names[key], tensors[key]) for key in names)


def files(path: str) -> list[str]:
    """The safetensors of a folder, or of what is cached or to be had of a name on the hub."""
    single = cached_file(path, SINGLE, **MAY_LACK)
    if single is not None:
        return [single]
    index = cached_file(path, INDEX, **MAY_LACK)
    return [] if index is None else list(cast(Any, get_checkpoint_shard_files(path, index))[0])


def materialize(module: nn.Module, device: torch.device) -> None:
    """Memory for what has none yet, whatever is in it, on this rank's device."""
    module._apply(lambda t: torch.empty_like(t, device=device) if t.is_meta else t.to(device))  # pyright: ignore


@torch.no_grad()
def fill(model: nn.Module, path: str) -> None:
    """Reads each parameter that the folder has, or this rank's rows of it, into its place, cast to its type."""
    places = {name.replace(BASE, "."): value for names, value in by_names(model, buffers=True) for name in names}
    for file in files(path):
        with safe_open(file, "pt") as content:
            for name in places.keys() & set(content.keys()):
                rows, value = content.get_slice(name), places[name]
                if isinstance(value, DTensor):
                    first, last = own_rows(value)
                    value.to_local().copy_(rows[first:last])
                else:
                    value.copy_(rows[:] if value.dim() else content.get_tensor(name))


def own_rows(value: DTensor) -> tuple[int, int]:
    """Where this rank's rows begin and end: FSDP2 cuts as torch.chunk does."""
    length, mesh = value.shape[0], value.device_mesh
    each = -(-length // mesh.size())
    first = min(mesh.get_local_rank() * each, length)
    return first, first + value.to_local().shape[0]
