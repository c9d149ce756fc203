"""A transformers model decoded token by token, where vLLM is not to be had, and for models too small to need it."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import DynamicCache
from transformers.utils import logging

from isentropic.batch import DTYPES
from isentropic.pretrained import pretrained
from isentropic.sampler import Completion, Decoding, Done, Halted, Piece, Request, Sampler
from isentropic.sampler.ends import Ends, ends_of
from isentropic.sampler.grouped_attention import use_grouped_attention
from isentropic.sampler.validation import check_model, check_requests, check_rows, sharing


@dataclass
class Rows:
    """What has been written of some requests: a column of tokens and one of log-probs for each step."""

    tokens: list[Tensor]  # of each step [B]
    logp: list[Tensor]
    lengths: Tensor  # [B], of those that are done; else 0
    stopped: Tensor  # [B], whether by an end token or text

    def completions(self) -> Iterator[Completion]:
        """Of rows that are all done."""
        rows = zip(torch.stack(self.tokens, 1).tolist(), torch.stack(self.logp, 1).tolist(), strict=True)
        ended = zip(rows, self.lengths.tolist(), self.stopped.tolist(), strict=True)
        return (Completion(row[:n], values[:n], "stop" if end else "length") for (row, values), n, end in ended)

    def completion(self, row: int) -> Completion:
        """Of one that is done."""
        piece = self.piece(row, int(self.lengths[row]))
        return Completion(piece.tokens, piece.logp, "stop" if bool(self.stopped[row]) else "length")

    def piece(self, row: int, length: int) -> Piece:
        """The first so many tokens of a row."""
        tokens = [int(column[row]) for column in self.tokens[:length]]
        return Piece(tokens, [float(column[row]) for column in self.logp[:length]])


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
    steps: tuple[int, int] = field(init=False, default=(0, 0))  # rows of all steps, and of these the ones already done

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
            model: Any = pretrained(self.path, dtype=DTYPES[self.dtype])
        if shown:
            logging.enable_progress_bar()
        if self.device == "cpu":
            use_grouped_attention(model)
        self.model = model.to(self.device).requires_grad_(False).eval()

    def check(self, prompts: Sequence[Sequence[int]], count: int, seeds: Sequence[int], decoding: Decoding) -> None:
        check_requests(prompts, count, seeds, decoding, self.max_model_len)

    @torch.no_grad()
    def write(self, requests: Sequence[Request], decoding: Decoding) -> list[Completion]:
        check_rows(requests, decoding, self.max_model_len)
        ends = ends_of(self.path, decoding.stop)
        batches = parts(requests, self.max_num_seqs)
        return [one for part in batches for one in self.decode(part, decoding, ends).completions()]

    @property
    def halts(self) -> bool:
        return True

    @torch.no_grad()
    def write_until(
        self,
        requests: Sequence[Request],
        decoding: Decoding,
        at_once: int,
        done: Done,
        halted: Halted,
        keep: bool = False,
    ) -> dict[int, Piece]:
        """All at one time, as none can take the place of another that is done."""
        self.check_keep(keep)
        check_rows(requests, decoding, self.max_model_len)
        ends, first = ends_of(self.path, decoding.stop), 0
        for part in parts(requests, self.max_num_seqs):
            told: set[int] = set()

            def look(rows: Rows, first: int = first, told: set[int] = told) -> bool:
                for row in set(rows.lengths.nonzero()[:, 0].tolist()) - told:
                    told.add(row)
                    done(first + row, rows.completion(row))
                return halted()

            rows = self.decode(part, decoding, ends, look)
            left = [row for row in range(len(rows.lengths)) if row not in told]
            if left or halted():
                return {first + row: rows.piece(row, len(rows.tokens)) for row in left}
            first += len(rows.lengths)
        return {}

    def decode(
        self,
        prompts: list[list[Request]],
        decoding: Decoding,
        ends: Ends,
        halted: Callable[[Rows], bool] = lambda rows: False,
    ) -> Rows:
        """Each list holds the requests of one prompt, which is read once; `halted` is asked after every step."""
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
        found = Rows([], [], torch.zeros_like(limits), torch.zeros_like(limits, dtype=torch.bool))
        written, logp, lengths, stopped = found.tokens, found.logp, found.lengths, found.stopped
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
            if halted(found) or lengths.all():
                break
        whole = len(rows) * len(written)
        used = int(torch.where(lengths > 0, lengths, len(written)).sum())
        self.steps = (self.steps[0] + whole, self.steps[1] + whole - used)
        return found

    @property
    def slots(self) -> tuple[int, int]:
        return self.steps

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
