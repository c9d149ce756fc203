"""A transformers model decoded token by token, where vLLM is not to be had, and for models too small to need it."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.utils import logging

from isentropic.batch import DTYPES
from isentropic.sampler import Completion, Decoding, Request, Sampler
from isentropic.sampler.ends import Ends, ends_of
from isentropic.sampler.validation import check_model, check_requests, check_rows, sharing


@dataclass
class TransformersSampler(Sampler):
    """Log-probs are of the distribution that is sampled from: after temperature, min_p, top_k and top_p, renormalised.

    Raises ValueError for settings, prompts or weights that do not fit.
    """

    path: str  # model folder
    dtype: str  # float32 or bfloat16
    device: str  # cpu or cuda; with several cards, the process's own
    max_model_len: int  # tokens of prompt and answer
    max_num_seqs: int  # completions decoded at once; those of one prompt are never split
    model: Any = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"sampler.dtype={self.dtype} is not one of {', '.join(DTYPES)}")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"sampler.device={self.device} is not one of cpu, cuda")

    def start(self) -> None:
        check_model(self.path, self.max_model_len)
        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        with torch.random.fork_rng([]):
            model: Any = AutoModelForCausalLM.from_pretrained(self.path, dtype=DTYPES[self.dtype])
        if shown:
            logging.enable_progress_bar()
        self.model = model.to(self.device).requires_grad_(False).eval()

    def check(self, prompts: Sequence[Sequence[int]], count: int, seeds: Sequence[int], decoding: Decoding) -> None:
        check_requests(prompts, count, seeds, decoding, self.max_model_len)

    @torch.no_grad()
    def write(self, requests: Sequence[Request], decoding: Decoding) -> list[Completion]:
        check_rows(requests, decoding, self.max_model_len)
        ends = ends_of(self.path, decoding.stop)
        return [one for part in parts(requests, self.max_num_seqs) for one in self.decode(part, decoding, ends)]

    def decode(self, prompts: list[list[Request]], decoding: Decoding, ends: Ends) -> Iterator[Completion]:
        """Each list holds the requests of one prompt, which is read once."""
        rows = [request for group in prompts for request in group]
        limits = torch.tensor([request.limit for request in rows], device=self.device)
        steps = int(limits.max())
        noise = uniform([request.seed for request in rows], steps).to(self.device)
        tokens, mask = left_padded([group[0].prompt for group in prompts], self.device)
        counts = torch.tensor([len(group) for group in prompts], device=self.device)
        cache = DynamicCache()
        logits = self.next_logits(tokens, mask, cache)
        if len(rows) > len(prompts):
            cache.batch_select_indices(torch.arange(len(prompts), device=self.device).repeat_interleave(counts))
            logits, mask = logits.repeat_interleave(counts, 0), mask.repeat_interleave(counts, 0)
        written: list[Tensor] = []
        logp: list[Tensor] = []
        lengths, stopped = torch.zeros_like(limits), torch.zeros_like(limits, dtype=torch.bool)
        asked = torch.tensor(ends.ids, dtype=torch.long, device=self.device)
        for step in range(steps):
            if step:
                mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
                logits = self.next_logits(written[-1][:, None], mask, cache)
            processed = process(logits, decoding)
            written.append(processed.argmax(-1) if decoding.greedy else draw(processed, noise[:, step]))
            logp.append(processed.gather(1, written[-1][:, None])[:, 0])
            stopped |= met(written, torch.isin(written[-1], asked) & (lengths == 0), ends)
            lengths[(lengths == 0) & (stopped | (step + 1 >= limits))] = step + 1
            if lengths.all():
                break
        rows_of = zip(torch.stack(written, 1).tolist(), torch.stack(logp, 1).tolist(), strict=True)
        ended = zip(rows_of, lengths.tolist(), stopped.tolist(), strict=True)
        return (Completion(row[:n], values[:n], "stop" if end else "length") for (row, values), n, end in ended)

    def next_logits(self, tokens: Tensor, mask: Tensor, cache: DynamicCache) -> Float[Tensor, "B V"]:
        """After the last of `tokens` [B, T], which are those of `mask` [B, S] that the cache has not read."""
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        output = self.model(
            input_ids=tokens, attention_mask=mask, position_ids=positions, past_key_values=cache, logits_to_keep=1
        )
        return output.logits[:, -1].float()

    @torch.no_grad()
    def score(self, tokens: Sequence[int]) -> list[float] | None:
        if not 2 <= len(tokens) <= self.max_model_len:
            raise ValueError(f"{len(tokens)} tokens cannot be scored; there must be 2 to {self.max_model_len}")
        ids = torch.tensor([list(tokens)], device=self.device)
        logp = self.model(input_ids=ids[:, :-1]).logits[0].float().log_softmax(-1)
        return logp.gather(1, ids[0, 1:, None])[:, 0].tolist()

    @torch.no_grad()
    def update_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Raises ValueError for an unknown name, another shape, or a missing name; a tied alias may be missing."""
        own: dict[str, Tensor] = self.model.state_dict()
        written: set[int] = set()
        for name, tensor in weights:
            if name not in own:
                raise ValueError(f"weight {name} is not one of the model in {self.path}")
            if own[name].shape != tensor.shape:
                raise ValueError(f"weight {name} has shape {list(tensor.shape)}; it must be {list(own[name].shape)}")
            own[name].copy_(tensor)
            written.add(own[name].data_ptr())
        if missing := [name for name, tensor in own.items() if tensor.data_ptr() not in written]:
            raise ValueError(f"{len(missing)} weights did not come, {missing[0]} among them; a load takes all of them")


def parts(requests: Sequence[Request], size: int) -> Iterator[list[list[Request]]]:
    """Those of one prompt together, and as many prompts as have `size` requests, at least one."""
    part: list[list[Request]] = []
    for group in sharing(requests):
        if part and sum(map(len, part)) + len(group) > size:
            yield part
            part = []
        part.append(group)
    if part:
        yield part


def uniform(seeds: Sequence[int], steps: int) -> Float[Tensor, "B T"]:
    """Each row's own stream, so that a completion does not depend on what is decoded beside it."""
    return torch.stack(
        [torch.rand(steps, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in seeds]
    )


def left_padded(prompts: Sequence[Sequence[int]], device: str) -> tuple[Tensor, Tensor]:
    """Prompts [B, P] that end in the same column, and which of their columns are real [B, P]."""
    width = max(map(len, prompts))
    tokens = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts], device=device)
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
    return tokens, (torch.arange(width, device=device) >= width - lengths[:, None]).long()


def process(logits: Float[Tensor, "B V"], decoding: Decoding) -> Float[Tensor, "B V"]:
    """Log-probs of the distribution to draw from, filtered in vLLM's order; of a greedy one those at temperature 1."""
    if decoding.greedy:
        return logits.log_softmax(-1)
    logits = logits / decoding.temperature
    if decoding.min_p > 0:
        probs = logits.softmax(-1)
        logits = logits.masked_fill(probs < decoding.min_p * probs.amax(-1, keepdim=True), -torch.inf)
    if 0 < decoding.top_k < logits.shape[-1]:
        logits = logits.masked_fill(logits < logits.topk(decoding.top_k).values[:, -1:], -torch.inf)
    if decoding.top_p < 1:
        ascending, order = logits.sort(-1)
        beyond = ascending.softmax(-1).cumsum(-1) <= 1 - decoding.top_p
        beyond[:, -1] = False
        logits = logits.masked_fill(torch.zeros_like(beyond).scatter(1, order, beyond), -torch.inf)
    return logits.log_softmax(-1)


def draw(logp: Float[Tensor, "B V"], noise: Float[Tensor, " B"]) -> Tensor:
    """The token [B] in whose share of [0, 1) the noise falls. float64, or rare tokens would have no share."""
    edges = logp.double().exp().cumsum(-1)
    return torch.searchsorted(edges, (noise * edges[:, -1])[:, None], right=True)[:, 0].clamp(max=logp.shape[1] - 1)


def met(written: Sequence[Tensor], asked: Tensor, ends: Ends) -> Tensor:
    """Of the rows that are asked about [B], those whose last token ends them [B]; `written` holds [B] for each step."""
    if not ends.closing or not asked.any():
        return asked
    places = asked.nonzero()[:, 0]
    tails = torch.stack([column[places] for column in written[-ends.width :]], 1).tolist()
    return asked.index_put((places,), torch.tensor([ends.met(tail) for tail in tails], device=asked.device))
