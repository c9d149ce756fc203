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
    """In the place of a body: it gives the hidden states that it was made with, and has what else the body has."""

    def __init__(self, states: Tensor, body: nn.Module) -> None:
        super().__init__()
        self.body = (body,)  # not as a part of this module
        self.output = BodyOutput(last_hidden_state=states)  # pyright: ignore[reportArgumentType]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.body[0], name)

    @property
    def decoder(self) -> nn.Module:
        """Itself, as models call it that have an encoder too."""
        return self

    def forward(self, *arguments: Any, **settings: Any) -> BodyOutput:
        return self.output


def own_head(lm: PreTrainedModel) -> Callable[[Float[Tensor, "N D"]], Float[Tensor, "N V"]]:
    """The forward of the whole model with its body left out."""

    def logits(states: Tensor) -> Tensor:
        tokens = torch.zeros(1, len(states), dtype=torch.long, device=states.device)
        with given_states(lm, states[None]):
            return lm(input_ids=tokens, use_cache=False).logits[0]

    return logits


@contextmanager
def given_states(lm: PreTrainedModel, states: Tensor) -> Generator[None]:
    """Inside, the body gives these states [B, S, D], whatever it is asked."""
    name = body_name(lm)
    body = lm.get_submodule(name)
    try:
        lm._modules[name] = GivenStates(states, body)
        yield
    finally:
        lm._modules[name] = body


def body_name(lm: PreTrainedModel) -> str:
    """Where a model keeps what gives hidden states; some name it otherwise than they say."""
    return next(name for name in (lm.base_model_prefix, "model") if name in lm._modules)
