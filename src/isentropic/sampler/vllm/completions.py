"""An ordinary vLLM server, asked as OpenAI's completions are, with token ids in and out: its weights are its own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from torch import Tensor
from transformers import PreTrainedTokenizerBase

from isentropic.sampler import Completion, Decoding, Reply, Request, Sampler, SamplerError, once
from isentropic.sampler.ends import ends_of
from isentropic.sampler.validation import check_requests, check_rows
from isentropic.sampler.vllm import asking
from isentropic.sampler.vllm.http import Service, check_release, first_choice, models
from isentropic.sampler.vllm.sampling_params import Row, rows_of

PROBE = "Find 12 + 34, step by step. {x} \\boxed{46}\n\tÄ 数"  # whose tokens tell one tokenizer from another


@dataclass(frozen=True)
class Served:
    """What a server says of itself: its version, model and longest sequence."""

    version: str
    name: str  # by which requests ask for it
    root: str  # folder or hub name
    max_model_len: int  # tokens of prompt and answer


@dataclass
class CompletionsSampler(Sampler):
    """Raises ValueError for a server that does not fit, RuntimeError where it cannot be reached or fails."""

    url: str
    path: str  # model folder: its tokenizer and end tokens
    model: str | None  # the name on the server; None is the only one that is there
    max_model_len: int  # tokens of prompt and answer
    max_num_seqs: int  # requests at one time
    timeout: float  # seconds that the server may take to answer
    dtype: str = field(init=False, default="bfloat16")
    service: Service | None = field(init=False, default=None, repr=False)
    served: Served | None = field(init=False, default=None)

    @property
    def returns_logprobs(self) -> bool:
        return False

    @property
    def is_remote(self) -> bool:
        return True

    def start(self) -> None:
        self.service = Service(self.url, self.timeout, None, None)
        self.served = look(self.service, self.model)
        if self.max_model_len > self.served.max_model_len:
            raise ValueError(
                f"the server at {self.url} reads {self.served.max_model_len} tokens, fewer than {self.max_model_len}"
            )

    def check(self, prompts: Sequence[Sequence[int]], count: int, seeds: Sequence[int], decoding: Decoding) -> None:
        check_requests(prompts, count, seeds, decoding, self.max_model_len)

    def write(self, requests: Sequence[Request], decoding: Decoding) -> list[Completion]:
        found: dict[int, Completion] = {}
        self.converse(requests, decoding, once(found.__setitem__))
        return [found[place] for place in range(len(requests))]

    def converse(self, requests: Sequence[Request], decoding: Decoding, reply: Reply) -> None:
        check_rows(requests, decoding, self.max_model_len)
        if self.service is None or self.served is None:
            raise SamplerError("the server was not asked what it has; start comes first")
        ends, name, service = ends_of(self.path, decoding.stop), self.served.name, self.service

        def ask(row: Row) -> Completion:
            answer = service.call("/v1/completions", body(name, row, decoding, ends.ids))
            return completion_of(answer, name, row.limit)

        rows = rows_of(requests, "none")
        asking.converse(rows, lambda row: asking.whole(row, ask, ends), reply, self.max_num_seqs)

    def score(self, tokens: Sequence[int]) -> list[float] | None:
        return None

    def update_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        raise ValueError(f"the server at {self.url} keeps its own weights; sampler=vllm_server is one that learns")

    def stop(self) -> None:
        self.service = None


def look(service: Service, model: str | None) -> Served:
    """Raises ValueError where the server is of another release or has not got `model`, RuntimeError if it is not there.

    `model` is a name that it serves, or the folder or hub name that it has read.
    """
    version = check_release(service)
    there = models(service)
    chosen = [one for one in there if model is None or model in (one["id"], one.get("root"))]
    if not chosen:
        names = ", ".join(one["id"] for one in there)
        raise ValueError(f"the server at {service.url} serves {names}; server.model={model} is another model")
    one = chosen[0]
    return Served(version, one["id"], str(one.get("root") or one["id"]), int(one["max_model_len"]))


def check_tokenizer(service: Service, served: Served, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raises ValueError where the server cuts a text into other tokens: it serves another model."""
    try:
        answer = service.call("/tokenize", {"model": served.name, "prompt": PROBE, "add_special_tokens": False})
    except RuntimeError as error:
        if "with 404" in str(error):  # a server without its tokenizer has no such route
            return
        raise
    ours: list[int] = tokenizer.encode(PROBE, add_special_tokens=False)
    if answer["tokens"] != ours:
        raise ValueError(
            f"the server at {service.url} serves {served.root}, whose tokens are not those of the tokenizer in "
            f"{tokenizer.name_or_path}; server.tokenizer names another model's"
        )


def local_root(served: Served) -> str | None:
    """The folder that the server has read, where this machine has it too."""
    return served.root if (Path(served.root) / "config.json").is_file() else None


def body(name: str, asked: Row, decoding: Decoding, ends: list[int]) -> dict[str, Any]:
    """Penalties and limits too, as a server otherwise takes those of the model's own generation config."""
    return {
        "model": name,
        "prompt": asked.prompt,
        "max_tokens": asked.limit,
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "top_k": decoding.top_k,
        "min_p": decoding.min_p,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "min_tokens": 0,
        "seed": asked.seed,
        "stop_token_ids": ends,
        "return_token_ids": True,
    }


def completion_of(answer: Any, name: str, limit: int) -> Completion:
    """Token ids without log-probs.

    Raises SamplerError for an answer by another model, without ids, of more tokens than were asked for, or ended but by
    stop or length.
    """
    choice = first_choice(answer)
    if (other := answer.get("model", name)) != name:
        raise SamplerError(f"the server was asked for the model {name}, and {other} answered")
    finish, tokens = choice.get("finish_reason"), choice.get("token_ids")
    if finish not in ("stop", "length"):
        raise SamplerError(f"the server ended a completion by {finish!r}, not by stop or length")
    if not isinstance(tokens, list) or not all(isinstance(one, int) for one in cast(list[Any], tokens)):
        raise SamplerError("the server's answer has no token ids, which vLLM gives from release 0.10.2 on")
    if len(tokens) > limit:
        raise SamplerError(f"the server wrote {len(tokens):,} tokens, and was asked for {limit:,} at most")
    return Completion(cast(list[int], tokens), None, finish)
