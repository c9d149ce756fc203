"""vLLM on cards of its own, as `vllm serve`, which the trainer asks over HTTP."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import Tensor

from isentropic.batch import DTYPES
from isentropic.distributed import rank
from isentropic.sampler import Completion, Decoding, Done, Halted, Piece, Reply, Request, Sampler, SamplerError, once
from isentropic.sampler.ends import Ends, ends_of
from isentropic.sampler.validation import (
    arriving,
    check_arrived,
    check_model,
    check_requests,
    check_rows,
    weight_names,
)
from isentropic.sampler.vllm import asking, keeper
from isentropic.sampler.vllm.devices import check_any, check_cards, policy_cards
from isentropic.sampler.vllm.engine_args import check_graphs, server_arguments
from isentropic.sampler.vllm.http import SOCKET, Service, serve
from isentropic.sampler.vllm.sampling_params import EVERY, LOGPROBS, WANT_LOGPROBS, Row, rows_of
from isentropic.sampler.vllm.weight_sync import FileTransfer, NcclTransfer, Transfer


@dataclass
class VllmServerSampler(Sampler):
    """Rank 0 starts the server and sends it the weights; every rank asks it for its own completions.

    A server at `url`, of whoever started it, must have been given `--logprobs-mode processed_logprobs`. Raises
    ValueError for settings, prompts, weights or a server that do not fit, SamplerError where the server fails.
    """

    path: str  # model folder
    dtype: str  # float32 or bfloat16
    max_model_len: int  # tokens of prompt and answer
    max_num_seqs: int  # rows that are decoded at once
    max_num_batched_tokens: int  # of one forward pass
    kv_cache_gib: float | None  # None on CUDA: what gpu_memory_utilization leaves
    gpu_memory_utilization: float  # share of the card, weights included
    enforce_eager: bool
    tensor_parallel_size: int  # cards of the server
    logprobs: str  # of all completions, of a sample (those of one prompt in eight), or none
    url: str | None  # of a server that runs; None starts one on this machine
    devices: str | int | None  # CUDA_VISIBLE_DEVICES of a server that is started; not the trainer's
    transfer: str  # nccl or file
    timeout: float  # seconds that the server may take to start, and to answer
    log: str  # file that a server which is started writes to
    cudagraph_sequences: int | None = None  # steps of up to so many are CUDA graphs; None is vLLM's own, 512
    service: Service | None = field(init=False, default=None, repr=False)
    sender: Transfer | None = field(init=False, default=None, repr=False)  # on rank 0
    names: frozenset[str] = field(init=False, default=frozenset())  # of the weights that a load must bring
    loaded: bool = field(init=False, default=False)  # False while the server's weights are not known to be the policy's
    whole_completions: bool = field(init=False, default=False)  # whether its scheduler is ours

    def __post_init__(self) -> None:
        check_graphs(self)
        for name, known in (("dtype", DTYPES), ("logprobs", EVERY), ("transfer", ("nccl", "file"))):
            if getattr(self, name) not in known:
                raise ValueError(f"sampler.{name}={getattr(self, name)} is not one of {', '.join(known)}")
        if not self.timeout > 0:
            raise ValueError(f"sampler.timeout={self.timeout} seconds is not above 0")
        if self.url is not None and not self.url.startswith(("http://", "https://", SOCKET)):
            raise ValueError(
                f"sampler.url={self.url} is not the URL of a server, such as http://host:8000 or unix:/path/of/socket"
            )

    @property
    def returns_logprobs(self) -> bool:
        return self.logprobs == "all"

    @property
    def is_remote(self) -> bool:
        return True

    def check_ranks(self, ranks: int) -> None:
        if self.transfer == "nccl":
            check_any()

    def start(self) -> None:
        check_model(self.path, self.max_model_len)
        self.names = weight_names(self.path)
        url = [self.url]
        devices = None if self.devices is None else str(self.devices)
        cards = policy_cards() if self.transfer == "nccl" else set[str]()
        if self.url is None:
            check_cards(devices, self.tensor_parallel_size, cards)
        if rank() == 0:
            if self.url is None:
                self.service = serve(server_arguments(self), devices, self.timeout, Path(self.log))
                url = [self.service.url]
            if self.transfer == "nccl":
                self.sender = NcclTransfer()
            else:
                own = Path(self.service.url.removeprefix(SOCKET)).parent if self.service else None
                self.sender = FileTransfer(str(own / "weights" if own else keeper.weights_folder()), self.path)
        if dist.is_initialized():
            dist.broadcast_object_list(url)
        self.service = self.service or Service(str(url[0]), self.timeout, None, None)
        self.service.await_health()
        self.service.check(self.path, self.max_model_len)
        answer = self.request([0], {"max_tokens": 2, WANT_LOGPROBS: True})
        self.whole_completions = LOGPROBS in (answer["kv_transfer_params"] or {})

    def request(self, prompt: Sequence[int], settings: dict[str, Any]) -> Any:
        """The server's answer to one prompt of ids. Raises SamplerError before start(), or as Service.call does."""
        if self.service is None:
            raise SamplerError("the server was not started")
        if WANT_LOGPROBS in settings:
            settings = settings | {"extra_args": {WANT_LOGPROBS: settings[WANT_LOGPROBS]}}
            del settings[WANT_LOGPROBS]
        body = {"token_ids": list(prompt), "sampling_params": {"detokenize": False, **settings}}
        return self.service.call("/inference/v1/generate", body)

    def check(self, prompts: Sequence[Sequence[int]], count: int, seeds: Sequence[int], decoding: Decoding) -> None:
        check_requests(prompts, count, seeds, decoding, self.max_model_len)

    def write(self, requests: Sequence[Request], decoding: Decoding) -> list[Completion]:
        found: dict[int, Completion] = {}
        self.converse(requests, decoding, once(found.__setitem__))
        return [found[place] for place in range(len(requests))]

    def converse(self, requests: Sequence[Request], decoding: Decoding, reply: Reply) -> None:
        rows, ask, ends = self.asked(requests, decoding)
        # each waits with a connection of its own; more than the server runs would bring nothing
        asking.converse(rows, lambda row: asking.whole(row, ask, ends), reply, self.max_num_seqs)

    @property
    def halts(self) -> bool:
        return True

    def write_until(
        self,
        requests: Sequence[Request],
        decoding: Decoding,
        at_once: int,
        done: Done,
        halted: Halted,
        keep: bool = False,
    ) -> dict[int, Piece]:
        """Halts where pieces of answers end, which are asked for one after the other."""
        self.check_keep(keep)
        rows, ask, ends = self.asked(requests, decoding)
        return asking.until(rows, ask, ends, done, halted, min(at_once, self.max_num_seqs))

    def asked(
        self, requests: Sequence[Request], decoding: Decoding
    ) -> tuple[list[Row], Callable[[Row], Completion], Ends]:
        """Rows, what asks the server for one, and what ends it. Raises SamplerError where it has no weights."""
        check_rows(requests, decoding, self.max_model_len)
        if not self.loaded:
            raise SamplerError("the server has no weights; they are lost by a load that fails")
        ends = ends_of(self.path, decoding.stop)

        def ask(row: Row) -> Completion:
            return completion_of(self.request(row.prompt, draws(decoding, row, ends.ids, self.whole_completions)))

        return rows_of(requests, self.logprobs), ask, ends

    @property
    def read(self) -> tuple[int, int] | None:
        return self.service.read_tokens() if self.service else None

    def score(self, tokens: Sequence[int]) -> list[float] | None:
        if not 2 <= len(tokens) < self.max_model_len:
            raise ValueError(f"{len(tokens)} tokens cannot be scored; there must be 2 to {self.max_model_len - 1}")
        rows = self.request(tokens, {"max_tokens": 1, "prompt_logprobs": 0, "seed": 0})["prompt_logprobs"]
        return [row[str(token)]["logprob"] for row, token in zip(rows[1:], tokens[1:], strict=True)]

    def update_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Raises ValueError for an unknown or missing name, tied aliases included, and SamplerError where it fails.

        After either, no sampling until a whole load.
        """
        if self.service is None:
            raise SamplerError("the server was not started")
        self.loaded = False
        if dist.is_initialized():
            dist.barrier()  # no rank is still being answered when the old weights go
        seen: set[str] = set()
        named = arriving(weights, self.names, DTYPES[self.dtype], self.path, seen)
        if self.sender is None:
            for _ in named:  # takes part in gathering what rank 0 sends
                pass
        else:
            self.sender.send(self.service, named)
        check_arrived(self.names, seen)
        if rank() == 0 and not self.service.call("/reset_prefix_cache")["success"]:
            raise SamplerError("the server kept its cache of the old weights; no request may run during a load")
        if dist.is_initialized():
            dist.barrier()  # no rank asks before the weights are there
        self.loaded = True

    def stop(self) -> None:
        if self.sender is not None:
            self.sender.close()
        if self.service is not None:
            self.service.stop()
        self.service = self.sender = None
        self.loaded = False


def draws(decoding: Decoding, row: Row, ends: list[int], whole: bool) -> dict[str, Any]:
    """Sampling parameters as JSON; `whole`: the fast scheduler answers in one piece, with log-probs beside it."""
    return {
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "top_k": decoding.top_k,
        "min_p": decoding.min_p,
        "max_tokens": row.limit,
        "stop_token_ids": ends,
        "seed": row.seed,
        "output_kind": 2,  # only what is final
    } | ({WANT_LOGPROBS: row.says} if whole else {"logprobs": 0 if row.says else None})


def completion_of(answer: dict[str, Any]) -> Completion:
    """Token ids and log-probs, if asked for. Raises SamplerError for one ended by neither stop nor length."""
    choice = answer["choices"][0]
    if choice["finish_reason"] not in ("stop", "length"):
        raise SamplerError(f"the server ended a completion by {choice['finish_reason']!r}, not by stop or length")
    told = answer["kv_transfer_params"] or {}
    if LOGPROBS in told:
        return Completion(choice["token_ids"], told[LOGPROBS], choice["finish_reason"])
    said = choice["logprobs"]
    logp = None if said is None else [token["logprob"] for token in said["content"]]
    return Completion(choice["token_ids"], logp, choice["finish_reason"])
