"""A request as vLLM takes it, and its answer as we do."""

# pyright: basic

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from isentropic.sampler import Completion, Decoding, Piece, Request, seed_after
from isentropic.sampler.ends import Ends
from isentropic.sampler.validation import sharing

ROW = "isentropic_row"  # numbers a request among those that are drawn together
WANT_LOGPROBS = "isentropic_want_logprobs"  # asks our server for whole completions, with log-probs or without
LOGPROBS = "isentropic_logprobs"  # where the answer holds them
EVERY = {"all": 1, "sample": 8, "none": 0}  # of so many prompts in turn, one has the log-probs of its completions told


class Row(NamedTuple):
    """One completion to be drawn."""

    prompt: list[int]
    seed: int
    says: bool  # whether its log-probs are asked for
    limit: int  # tokens that it may have


def rows_of(requests: Sequence[Request], logprobs: str) -> list[Row]:
    """Of one prompt in so many, as `logprobs` says, the completions' log-probs are asked for."""
    every = EVERY[logprobs]
    return [
        Row(list(request.prompt), request.seed, bool(every) and place % every == 0, request.limit)
        for place, group in enumerate(sharing(requests))
        for request in group
    ]


def rest_of(row: Row, written: Completion, ends: Ends) -> Row | Completion:
    """A completion, or what is still to be written of it, where the engine ended at a token that ends nothing here.

    The rest is drawn from a seed of its own, and continues what was written.
    """
    length = len(written.tokens)
    if written.finish == "length" or ends.met(written.tokens):
        return written
    if length >= row.limit:
        return Completion(written.tokens, written.logp, "length")
    return Row([*row.prompt, *written.tokens], seed_after(row.seed, length), row.says, row.limit - length)


def joined(first: Completion | None, rest: Completion) -> Completion:
    """Two pieces of one turn, of which the first may be missing."""
    if first is None:
        return rest
    logp = None if first.logp is None or rest.logp is None else first.logp + rest.logp
    return Completion(first.tokens + rest.tokens, logp, rest.finish)


@dataclass(slots=True)
class Note:
    """What a scheduler notes of one sequence while it is decoded."""

    number: int | str
    ends: frozenset[int]  # tokens that may end it
    last: int  # its length, prompt included, when it ends for good
    logp: list[float] | None


@dataclass(slots=True)
class Written:
    """What the scheduler wrote down of a completion that has ended."""

    tokens: list[int]
    logp: list[float] | None
    finish: str


def drawing(decoding: Decoding, ends: list[int]) -> Callable[[int, Row], Any]:
    """What makes vLLM's parameters for a row of a number.

    The number travels along, so that the scheduler knows whose tokens it writes. What all rows have in common is
    checked once.
    """
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    common = SamplingParams(
        temperature=decoding.temperature,
        top_p=decoding.top_p,
        top_k=decoding.top_k,
        min_p=decoding.min_p,
        max_tokens=decoding.max_tokens,
        stop_token_ids=ends,
        seed=0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
        skip_clone=True,  # clones share what is the same for all
    )

    def draws(number: int, row: Row) -> Any:
        one = common.clone()
        one.max_tokens, one.seed, one.extra_args = row.limit, row.seed, {ROW: number}
        one.logprobs = 0 if row.says else None  # 0: that of the drawn token
        return one

    return draws


def completion_of(output: Any, written: Written | None) -> Completion:
    """Of what the engine returned, or of what its scheduler wrote down where it did not pass that on.

    Raises RuntimeError for an end that is neither stop nor length.
    """
    finish = written.finish if written else output.finish_reason
    if finish not in ("stop", "length"):
        raise RuntimeError(f"the engine ended a completion by {finish!r}, not by stop or length")
    if written:
        return Completion(written.tokens, written.logp, finish)
    tokens = list(output.token_ids)
    rows = output.logprobs
    logp = [row[token].logprob for row, token in zip(rows, tokens, strict=True)] if rows is not None else None
    return Completion(tokens, logp, finish)


def piece_of(state: Any) -> Piece:
    """What the engine's own books have of a request that is not over."""
    tokens = list(state.detokenizer.output_token_ids)
    rows = state.logprobs_processor.logprobs
    logp = None if rows is None else [row[token].logprob for row, token in zip(rows, tokens, strict=True)]
    return Piece(tokens, logp)
