"""A model's own way from hidden states to logits, for those that scale, cap or transform what others only multiply."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import MoeModelOutputWithPast


class BodyOutput(MoeModelOutputWithPast):
    """Hidden states, and None for whatever else a head asks of its body."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


class GivenStates(nn.Module):
    """In the place of a body: it gives the hidden states that it was made with."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.output = BodyOutput(last_hidden_state=states)  # pyright: ignore[reportArgumentType]

    @property
    def decoder(self) -> nn.Module:
        return self  # as models call it that have an encoder too

    def forward(self, *arguments: Any, **settings: Any) -> BodyOutput:
        return self.output


def own_head(lm: PreTrainedModel) -> Callable[[Float[Tensor, "N D"]], Float[Tensor, "N V"]]:
    """The forward of the whole model with its body left out."""

    def logits(states: Tensor) -> Tensor:
        tokens = torch.zeros(1, len(states), dtype=torch.long, device=states.device)
        with in_place_of_body(lm, GivenStates(states[None])):
            return lm(input_ids=tokens, use_cache=False).logits[0]

    return logits


@contextmanager
def in_place_of_body(lm: PreTrainedModel, other: nn.Module) -> Generator[None]:
    name = lm.base_model_prefix
    body = lm._modules[name]
    try:
        lm._modules[name] = other
        yield
    finally:
        lm._modules[name] = body
