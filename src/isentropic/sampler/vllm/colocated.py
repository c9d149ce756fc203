"""vLLM inside the trainer's process, on CPU or CUDA, one engine per rank, or per team of ranks.

An engine in this process takes the policy's tensors one by one, without a copy of the model between the two.
In return it must leave the process as it found it: random state, thread count, process group.
"""

import importlib.util
import os
import shutil
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from isentropic.batch import DTYPES
from isentropic.runs.parallel import unswept
from isentropic.sampler import Completion, Decoding, Done, Halted, Piece, Reply, Request, Sampler, SamplerError, once
from isentropic.sampler.ends import ends_of
from isentropic.sampler.validation import (
    arriving,
    check_arrived,
    check_model,
    check_requests,
    check_rows,
    weight_names,
)
from isentropic.sampler.vllm import keeper
from isentropic.sampler.vllm.conversation import Conversation
from isentropic.sampler.vllm.engine_args import check_graphs, engine_settings, forget_shared_memory, starting
from isentropic.sampler.vllm.isolation import (
    check_card,
    going_to_sleep,
    kept_group,
    prepare_environment,
    temporary_files,
    untouched_process,
)
from isentropic.sampler.vllm.kept import KeptConversation
from isentropic.sampler.vllm.loading import load
from isentropic.sampler.vllm.sampling_params import EVERY, Row, rows_of
from isentropic.sampler.vllm.tensor_parallel import TensorParallelGroup, check_tensor_parallel


def available() -> bool:
    """Whether vLLM is installed. Does not import it."""
    return importlib.util.find_spec("vllm") is not None


@dataclass
class VllmSampler(Sampler):
    """Log-probs are of the distribution that is sampled from: after temperature, top_k, top_p and min_p, renormalised.

    Raises ValueError for settings, prompts or weights that do not fit, SamplerError where the weights are not there.
    """

    path: str  # model folder
    dtype: str  # float32 or bfloat16
    load_format: str  # auto reads the folder's weights; dummy leaves them random until the first load
    max_model_len: int  # tokens of prompt and answer
    max_num_seqs: int  # rows that are decoded at once
    max_num_batched_tokens: int  # of one forward pass
    kv_cache_gib: float | None  # None on CUDA: what gpu_memory_utilization leaves
    gpu_memory_utilization: float  # share of the card, weights included
    enforce_eager: bool
    sleep_level: int  # 0: never sleeps; 1: weights wait in host memory; 2: weights are dropped
    tensor_parallel_size: int  # ranks that hold one engine together
    logprobs: str  # of all completions, of a sample (those of one prompt in eight), or none
    fast_decode: bool  # through the scheduler, for steps that only decode; false is the engine's own way for all
    cudagraph_sequences: int | None = None  # steps of up to so many are CUDA graphs; None is vLLM's own, 512
    engine: Any = field(init=False, default=None, repr=False)
    names: frozenset[str] = field(init=False, default=frozenset())  # of the weights that a load must bring
    loaded: bool = field(init=False, default=False)  # False while the engine's weights are no model's
    asleep: set[str] = field(init=False, default_factory=set[str])
    owns_group: bool = field(init=False, default=False)  # the process group is the engine's, not the trainer's
    tp_group: TensorParallelGroup | None = field(init=False, default=None, repr=False)
    folder: Path | None = field(init=False, default=None, repr=False)  # the engine's own, for its temporary files
    seen: tuple[int, int] = field(init=False, default=(0, 0))  # tokens of prompts, and of these what was in the cache
    steps: tuple[int, int] = field(init=False, default=(0, 0))  # slots of all steps, and of these the idle ones
    kept: KeptConversation | None = field(init=False, default=None, repr=False)
    salt: str | None = field(init=False, default=None)  # tells what was cached since from what older weights computed

    def __post_init__(self) -> None:
        check_graphs(self)
        if self.dtype not in DTYPES:
            raise ValueError(f"sampler.dtype={self.dtype} is not one of {', '.join(DTYPES)}")
        if self.load_format not in ("auto", "dummy"):
            raise ValueError(f"sampler.load_format={self.load_format} is not one of auto, dummy")
        if self.sleep_level not in (0, 1, 2):
            raise ValueError(f"sampler.sleep_level={self.sleep_level} is not 0, 1 or 2")
        if self.logprobs not in EVERY:
            raise ValueError(f"sampler.logprobs={self.logprobs} is not one of {', '.join(EVERY)}")
        check_tensor_parallel(self.tensor_parallel_size, self.tensor_parallel_size)

    def check_ranks(self, ranks: int) -> None:
        check_tensor_parallel(self.tensor_parallel_size, ranks)

    @property
    def returns_logprobs(self) -> bool:
        return self.logprobs == "all"

    @property
    def halts(self) -> bool:
        return self.tensor_parallel_size == 1  # ranks that answer together would have to halt together

    @property
    def keeps(self) -> bool:
        """An engine that sleeps loses its keys and values; one on a CPU has no sleep."""
        return self.halts and (not self.sleep_level or not torch.cuda.is_available())

    def start(self) -> None:
        check_model(self.path, self.max_model_len)
        self.names = weight_names(self.path)
        self.owns_group = not dist.is_initialized()
        self.check_ranks(1 if self.owns_group else dist.get_world_size())
        self.tp_group = TensorParallelGroup(self.tensor_parallel_size) if self.tensor_parallel_size > 1 else None
        prepare_environment()
        if torch.cuda.is_available():
            alone = self.owns_group or dist.get_world_size() == 1
            check_card(torch.cuda.current_device(), 0 if alone else int(os.environ["LOCAL_RANK"]))
        self.folder = keeper.private_folder()
        with untouched_process(self.enforce_eager), temporary_files(self.folder), unswept():
            from vllm import LLM

            settings = engine_settings(self)
            with starting(self.path):
                self.engine = LLM(self.path, **settings)
            if self.tp_group:
                forget_shared_memory()
        if not settings["enable_sleep_mode"]:
            self.sleep_level = 0
        if self.fast_decode and not self.scheduler.short and (self.owns_group or dist.get_rank() == 0):
            print(
                "vLLM plans every step its own way: sampler.fast_decode does not know this model or release", flush=True
            )
        self.loaded = self.load_format == "auto"

    def check(self, prompts: Sequence[Sequence[int]], count: int, seeds: Sequence[int], decoding: Decoding) -> None:
        check_requests(prompts, count, seeds, decoding, self.max_model_len)

    def write(self, requests: Sequence[Request], decoding: Decoding) -> list[Completion]:
        check_rows(requests, decoding, self.max_model_len)
        rows = rows_of(requests, self.logprobs)
        rows, own = self.tp_group.together(rows) if self.tp_group else (rows, slice(None))
        return self.complete(rows, decoding)[own]

    def converse(self, requests: Sequence[Request], decoding: Decoding, reply: Reply) -> None:
        """Those of ranks that answer together are written turn by turn, as all must agree on what is written next."""
        if self.tp_group:
            Sampler.converse(self, requests, decoding, reply)
        else:
            check_rows(requests, decoding, self.max_model_len)
            self.run(rows_of(requests, self.logprobs), decoding, reply)

    def participate_idle(self, decoding: Decoding) -> None:
        while self.tp_group and (rows := self.tp_group.together(None)[0]):
            self.complete(rows, decoding)

    def complete(self, rows: list[Row], decoding: Decoding) -> list[Completion]:
        """A completion per row, in their order."""
        found: dict[int, Completion] = {}
        self.run(rows, decoding, once(found.__setitem__))
        return [found[place] for place in range(len(rows))]

    def write_until(
        self,
        requests: Sequence[Request],
        decoding: Decoding,
        at_once: int,
        done: Done,
        halted: Halted,
        keep: bool = False,
    ) -> dict[int, Piece]:
        self.check_keep(keep)
        check_rows(requests, decoding, self.max_model_len)
        rows = rows_of(requests, self.logprobs)
        with self.talking(decoding, keep) as talk:
            return talk.run_until(rows, at_once, done, halted)

    def run(self, rows: list[Row], decoding: Decoding, reply: Reply) -> None:
        """Each row turn after turn."""
        with self.talking(decoding) as talk:
            talk.run(rows, reply)

    @contextmanager
    def talking(self, decoding: Decoding, keep: bool = False) -> Generator[Conversation]:
        """After waking what sleeps; adds up what was read, and how much of it was cached."""
        self.make_ready()
        if not (keep and self.kept and self.kept.decoding == decoding):
            self.let_go()
        scheduler = self.scheduler if self.fast_decode else None
        ends = ends_of(self.path, decoding.stop)
        kind = KeptConversation if keep else Conversation
        talk = self.kept or kind(self.engine, scheduler, decoding, ends, self.max_num_seqs)
        talk.salt, self.kept = self.salt, talk if isinstance(talk, KeptConversation) else None
        with untouched_process(self.enforce_eager), unswept():
            yield talk
        self.seen = (self.seen[0] + talk.prompt_tokens, self.seen[1] + talk.cached_tokens)
        self.steps = (self.steps[0] + talk.slot_steps, self.steps[1] + talk.idle_steps)

    def let_go(self) -> None:
        """Ends what an earlier call kept, which is then computed anew where it goes on."""
        if self.kept is not None:
            with untouched_process(self.enforce_eager), unswept():
                self.kept.abandon()
            self.kept = None

    @property
    def slots(self) -> tuple[int, int]:
        return self.steps

    @property
    def read(self) -> tuple[int, int]:
        return self.seen

    @property
    def scheduler(self) -> Any:
        """The engine's, in this process: with fast_decode one of fast_scheduler.py, which has what was written."""
        return self.engine.llm_engine.engine_core.engine_core.scheduler

    def score(self, tokens: Sequence[int]) -> list[float] | None:
        from vllm import SamplingParams

        if not 2 <= len(tokens) < self.max_model_len:
            raise ValueError(f"{len(tokens)} tokens cannot be scored; there must be 2 to {self.max_model_len - 1}")
        params = SamplingParams(max_tokens=1, prompt_logprobs=0, detokenize=False, seed=0)
        self.make_ready()
        beside = self.kept.aside() if self.kept else nullcontext()
        with untouched_process(self.enforce_eager), unswept(), beside:
            self.engine.enqueue([{"prompt_token_ids": list(tokens)}], [params], use_tqdm=False)
            outputs: list[Any] = []
            while not outputs:
                outputs = [one for one in self.engine.llm_engine.step() if one.finished]
        rows = outputs[0].prompt_logprobs
        return [row[token].logprob for row, token in zip(rows[1:], tokens[1:], strict=True)]

    def make_ready(self) -> None:
        """Wakes what sleeps. Raises SamplerError where the engine has no weights."""
        self.wake_part("weights")
        self.wake_part("kv_cache")
        if not self.loaded:
            raise SamplerError("the engine has no weights; they are lost by sleep level 2 and by a load that fails")

    def update_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Raises ValueError for a missing name, tied aliases included, and SamplerError where `weights` fails midway.

        After either, the engine refuses to sample until a whole load.
        """
        self.wake_part("weights")  # and the cache only when it is needed, so that both never peak together
        self.loaded = False
        seen: set[str] = set()
        named = arriving(weights, self.names, DTYPES[self.dtype], self.path, seen)
        with untouched_process(self.enforce_eager):
            try:
                load(self.engine, named)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:
                raise SamplerError(f"weights failed at {len(seen)} of {len(self.names)}: {error}") from error
        check_arrived(self.names, seen)
        # entries are found by token ids, so those of the old weights would be taken for the new
        if self.kept and self.kept.running:
            self.salt = str(int(self.salt or 0) + 1)  # and what is kept is in the cache
        elif not self.engine.reset_prefix_cache():
            raise SamplerError("the engine kept its cache of the old weights; no request may run during a load")
        self.loaded = True

    def sleep(self) -> None:
        if self.sleep_level and "weights" not in self.asleep:
            self.let_go()
            self.wake_part("kv_cache")
            with going_to_sleep():
                self.engine.sleep(self.sleep_level)
            self.asleep = {"weights", "kv_cache"}
            self.loaded = self.loaded and self.sleep_level == 1

    def wake(self) -> None:
        self.wake_part("weights")

    def wake_part(self, part: str) -> None:
        """Weights or kv_cache, if it sleeps. Raises SamplerError before start()."""
        if self.engine is None:
            raise SamplerError("the engine was not started")
        if part in self.asleep:
            torch.cuda.empty_cache()  # what the trainer cached and does not use
            self.engine.wake_up([part])
            self.asleep.discard(part)

    def stop(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        if self.engine is None:
            return
        with nullcontext() if self.owns_group else kept_group():
            self.engine.llm_engine.engine_core.shutdown()
        self.engine = self.kept = None
