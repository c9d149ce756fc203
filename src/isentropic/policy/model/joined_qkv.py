"""Queries, keys and values by one product: weights stay apart, as parameters, and are put together where they are used.

Attention's own forward is given what the one product comes to in place of its input, of which each of its matrices then
takes its own columns. It must read its input through these matrices alone, and by its shape but for the last axis:
policy/model/self_check.py reads two rows both ways. By classes: with closures, each layer would be compiled by itself.
"""

from collections.abc import Iterable
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

QKV = "q_proj", "k_proj", "v_proj"  # as transformers calls them


class Columns(nn.Linear):
    """A matrix that is given the product of several, and takes its own columns of it."""

    begin: int
    end: int

    def forward(self, input: Float[Tensor, "... W"]) -> Float[Tensor, "... O"]:
        """Its columns, of the product of all."""
        return input[..., self.begin : self.end]


def join_qkv(layers: Iterable[nn.Module]) -> list[nn.Module]:
    """Joins them in place; the modules that own them. Where an adapter stands beside one, none."""
    return [module for layer in layers for module in layer.modules() if joined(module)]


def joined(module: nn.Module) -> bool:
    """Whether the module has these matrices, of one input and all with or all without a bias: now they are one."""
    parts: list[Any] = [part for name in QKV if type(part := getattr(module, name, None)) is nn.Linear]
    if len(parts) < len(QKV) or len({(part.in_features, part.bias is None) for part in parts}) > 1:
        return False
    edges = pairwise(accumulate((part.out_features for part in parts), initial=0))
    for part, (begin, end) in zip(parts, edges, strict=True):
        part.__class__ = Columns
        part.begin, part.end = begin, end
    module.__class__ = after_one_product(type(module))
    return True


@cache
def after_one_product(kind: type[nn.Module]) -> type[nn.Module]:
    """The module's class, whose forward is given the product of its input with all of these matrices."""

    def forward(self: Any, hidden_states: Tensor, *arguments: Any, **settings: Any) -> Any:
        parts = [getattr(self, name) for name in QKV]
        weight = torch.cat([part.weight for part in parts])
        bias = None if parts[0].bias is None else torch.cat([part.bias for part in parts])
        return kind.forward(self, linear(hidden_states, weight, bias), *arguments, **settings)

    return type(kind.__name__, (kind,), {"forward": forward})


def separate(modules: Iterable[nn.Module]) -> None:
    """Products of what `join_qkv` returned are by themselves again."""
    for module in modules:
        module.__class__ = type(module).__bases__[0]
        for part in module.children():
            if isinstance(part, Columns):
                part.__class__ = nn.Linear  # pyright: ignore[reportAttributeAccessIssue]
