"""Two short rows, read by a model's own forward and by ours: how far apart are they?"""

import random
from abc import abstractmethod
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from isentropic.batch import Ids, Mask, PerToken
from isentropic.distributed import largest
from isentropic.policy.batching.packing import PackedSequences, pack, pack_shared_prompts, prompts_of

LENGTHS = 24, 17  # tokens of the two rows
PROMPT = 5  # tokens that both begin with
WINDOW = 4  # to which longer ones are narrowed meanwhile, so that the rows pass them
TEMPERATURE = 0.7
# Parts of the logits' spread that are rounding: anything wrong is of the size of the spread itself. In bf16 a mixture's
# router may choose other experts for a token or two. Two heads on the same hidden states are rounded alike.
ROUNDING = {"float32": 1e-3, "bfloat16": 0.12}
ROUNDING_OF_HEADS = {"float32": 1e-4, "bfloat16": 0.01}
SEVERAL = 8
TF32 = 0.02  # where products of fp32 may be in it, on a GPU


class Settled(nn.Module):
    """What is checked, and then settled: policy/model/language_model.py."""

    lm: PreTrainedModel
    settings: Any
    packed: bool  # whether it reads packed rows
    shares_prompts: bool
    uses_own_head: bool  # its own forward from hidden states to logits, in place of one matrix product
    always_eval: bool  # it draws at random in training

    @abstractmethod
    def own_logits(self, tokens: Ids) -> Tensor:
        """Of the model's own forward, without any of ours: [B, S, V]."""

    @abstractmethod
    def mixed_precision(self) -> AbstractContextManager[None]:
        """Inside, products are in the settings' compute_dtype."""


@dataclass(frozen=True)
class Rows:
    """Two rows of random tokens, and what a model makes of them."""

    tokens: Ids
    mask: Mask
    logp: PerToken  # by the model's own forward, each row by itself
    spread: float  # of its logits
    rounding: float  # as a part of the spread

    def deviation(self, logp: PerToken, mask: Mask) -> float:
        """Nats between these log-probs and the model's own, of a typical token in 16 bits, else of the worst."""
        return apart(logp, self.logp, mask, self.typical)

    @property
    def typical(self) -> bool:
        """Whether readings are compared by a typical token, as in 16 bits, not by the worst."""
        return self.rounding > ROUNDING["float32"]

    def agree(self, deviation: float, rounding: float | None = None) -> bool:
        """The same answer on all ranks."""
        return not largest(int(not deviation <= (rounding or self.rounding) * max(self.spread, 1e-3)))


def apart(one: PerToken, other: PerToken, mask: Mask, typical: bool) -> float:
    """Nats between two readings, of a typical token of the worse row or of the worst of all; never NaN."""
    rows = [(a - b)[m].abs() for a, b, m in zip(one, other, mask, strict=True)]
    return torch.stack([row.median() if typical else row.max() for row in rows]).nan_to_num(torch.inf).max().item()


@dataclass(frozen=True)
class Check:
    """Readings of two rows by one model, to be compared with its own: how far is each off?"""

    model: Settled
    rows: Rows
    untold: str | None  # why it could not tell whether packed rows are right, in words

    def packed(self) -> float:
        """Nats between packed rows and the model's own forward."""
        return self.off(self.read(self.rows.mask, pack(self.rows.mask, list(LENGTHS))))

    def shared(self) -> float:
        """With the prompt once for both rows."""
        mask = self.rows.mask & (torch.arange(LENGTHS[0], device=self.rows.mask.device) >= PROMPT)
        packed = pack_shared_prompts(mask, list(LENGTHS), prompts_of(self.rows.tokens, mask))
        return self.off(self.read(mask, packed), mask)

    def off(self, logp: PerToken, mask: Mask | None = None) -> float:
        """Nats between these log-probs and the model's own forward, on the targets or on this mask."""
        return self.rows.deviation(logp, self.rows.mask if mask is None else mask)

    def read(self, mask: Mask, packed: PackedSequences | None) -> PerToken:
        """Log-probs of the two rows by our forward, padded or packed."""
        return self.model(self.rows.tokens, mask, LENGTHS[0], TEMPERATURE, "none", packed)[0]

    def between_kernels(self, padded: PerToken) -> float:
        """What is rounding here, as a part of the spread: some times that of padded rows, which are right."""
        own = SEVERAL * self.off(padded) / max(self.rows.spread, 1e-3)
        return min(max(own, self.rows.rounding / 12), self.rows.rounding)

    def sees_ahead(self) -> bool:
        """Whether a log-prob changes with tokens that come later."""
        short = LENGTHS[0] // 2
        cut = own_logp(self.model, self.rows.tokens[:1, :short])[0]
        return not self.rows.agree((cut - self.rows.logp[:1, :short])[0, 1:].abs().median().item())


@contextmanager
def checked(model: Settled) -> Generator[Check]:
    """Inside, the model is in eval mode, its windows are narrow, and neither gradients nor random numbers move."""
    lm, kind = model.lm, model.settings.compute_dtype
    device = next(lm.parameters()).device
    tokens, mask = two_rows(lm, device)
    window = window_of(lm.config)
    training = lm.training
    with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
        lm.eval()
        rows = read_by_itself(model, tokens, mask, kind)
        if window is None or window <= LENGTHS[1] - WINDOW:
            yield Check(model, rows, None)
        else:
            with narrow_windows(lm):
                narrow = read_by_itself(model, tokens, mask, kind)
                seen = not narrow.agree(narrow.deviation(rows.logp, mask))
                reason = None if seen else f"two short rows do not show whether its window of {window} tokens is kept"
                yield Check(model, narrow, reason)
        lm.train(training)


def two_rows(lm: PreTrainedModel, device: torch.device) -> tuple[Ids, Mask]:
    """Of tokens drawn from the vocabulary, but for those with a meaning of their own, such as a place for an image."""
    embeddings = cast(nn.Embedding, lm.get_input_embeddings())
    size = min(embeddings.num_embeddings, lm.config.get_text_config(decoder=True).vocab_size)
    reserved = set(special_ids(lm.config.to_dict()))
    draw = random.Random(0)
    plain = [token for token in draw.sample(range(size), min(size, 512)) if token not in reserved] or [0]
    first, second = (draw.choices(plain, k=length) for length in LENGTHS)
    second = [*first[:PROMPT], *second[PROMPT:], *[plain[0]] * (LENGTHS[0] - LENGTHS[1])]
    columns = torch.arange(LENGTHS[0], device=device)
    mask = (columns >= 1) & (columns < torch.tensor(LENGTHS, device=device)[:, None])
    return torch.tensor([first, second], device=device), mask


def special_ids(config: dict[Any, Any]) -> Iterator[int]:
    """Whatever a config, or one inside of it, calls an id or index: tokens that may have a meaning of their own."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from special_ids(value)
        elif str(name).endswith(("_id", "_index")):
            yield from value if isinstance(value, list) else [value]


def read_by_itself(model: Settled, tokens: Ids, mask: Mask, compute_dtype: str) -> Rows:
    """With eager attention, which leaves nothing out of what its authors wrote."""
    before = model.lm.config._attn_implementation
    use_attention(model.lm, "eager")
    found = [own_logp(model, row[None, :length]) for row, length in zip(tokens, LENGTHS, strict=True)]
    use_attention(model.lm, before)
    logp = torch.zeros(mask.shape, device=tokens.device)
    for row, length, (values, _) in zip(logp, LENGTHS, found, strict=True):
        row[:length] = values[0]
    rounding = max(ROUNDING[compute_dtype], tf32(tokens.device))
    return Rows(tokens, mask, logp, max(spread for _, spread in found), rounding)


def own_logp(model: Settled, tokens: Ids) -> tuple[PerToken, float]:
    """By the formula, from the logits of transformers; and how far these spread."""
    logits = model.own_logits(tokens)[:, :-1].float() / TEMPERATURE
    logp = logits.log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    return torch.nn.functional.pad(logp, (1, 0)), logits.std(-1).median().item()


def window_of(config: PretrainedConfig) -> int | None:
    """The tokens that a layer sees at most, where it does not see all."""
    text = config.get_text_config(decoder=True)
    kinds = getattr(text, "layer_types", None)
    window = getattr(text, "sliding_window", None)
    return window if isinstance(window, int) and (not kinds or "sliding_attention" in kinds) else None


@contextmanager
def narrow_windows(lm: PreTrainedModel) -> Generator[None]:
    """Inside, windows of layers are short, as their configs and they themselves know them."""
    owners = [owner for module in lm.modules() for owner in (module, getattr(module, "config", None)) if owner]
    known = {id(owner): owner for owner in owners if isinstance(vars(owner).get("sliding_window"), int)}
    before = {key: owner.sliding_window for key, owner in known.items()}
    try:
        for owner in known.values():
            owner.sliding_window = min(owner.sliding_window, WINDOW)  # pyright: ignore
        yield
    finally:
        for key, owner in known.items():
            owner.sliding_window = before[key]


def tf32(device: torch.device) -> float:
    """A part of the logits' spread that may be rounding, where this device multiplies fp32 in TF32; else 0."""
    return TF32 if device.type == "cuda" and torch.get_float32_matmul_precision() != "highest" else 0.0


def use_attention(lm: PreTrainedModel, name: str | None) -> None:
    """Sets one of transformers' attention functions by name, or leaves the model as it is."""
    if name is not None and lm.config._attn_implementation != name:
        lm.set_attn_implementation(name)
