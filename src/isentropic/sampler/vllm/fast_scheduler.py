"""vLLM's schedulers with a fast way through the steps that only decode, which are nearly all of a rollout.

The engine's own scheduler spends about 20 microseconds of Python on each sequence of each step: with 512 sequences
more than the card needs to compute the step. Where every running sequence takes one more token and nothing waits,
little of it is needed: new blocks for those whose last block is full, a token and a log-prob noted for each. All other
steps, and all sequences that end in a step, go the engine's own way.

Where steps are CUDA graphs, one that reads a prompt beside many sequences is larger than the largest graph and takes
three times as long (1.5 B parameters, 512 sequences, one H200: 28 ms for 9). So sequences that wait for a place begin
together, not one by one as places become free.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false, reportOptionalSubscript=false

import multiprocessing
import signal
from dataclasses import replace
from operator import attrgetter
from typing import Any

import vllm
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.request import Request, RequestStatus

from isentropic.sampler import Piece
from isentropic.sampler.vllm import keeper
from isentropic.sampler.vllm.fast_blocks import one_block_each
from isentropic.sampler.vllm.sampling_params import LOGPROBS, ROW, WANT_LOGPROBS, Note, Written

# releases whose schedulers this was written against, and what they call tokens that a preemption made void
READ = {"0.26": "async_tokens_to_discard", "0.32": "num_stale_output_tokens"}
RUNNING = RequestStatus.RUNNING
READING = 2  # what a step that reads prompts takes more than one that only decodes, in such steps
APART = 32  # at most so many steps are others held up for


class FastDecode:
    """To be mixed into a scheduler. `written` holds the sequences that have ended, by the number in their ROW."""

    notes: dict[str, Note]
    written: dict[int | str, Written]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.notes, self.written = {}, {}
        release = ".".join(vllm.__version__.split(".")[:2])
        self.void = attrgetter(READ.get(release, "status"))
        self.asynchronous = isinstance(self, AsyncScheduler)
        groups = self.kv_cache_config.kv_cache_groups
        self.short = (
            release in READ
            and len(groups) == 1
            and type(groups[0].kv_cache_spec) is FullAttentionSpec
            and groups[0].kv_cache_spec.sliding_window is None
            and self.connector is None
            and self.ec_connector is None
            and self.lora_config is None
            and not self.use_pp
            and not self.num_spec_tokens
            and not self.num_lookahead_tokens
            and not self.needs_kv_cache_zeroing
            and self.num_sampled_tokens_per_step == 1
            and self.dcp_world_size == 1
        )
        self.block = groups[0].kv_cache_spec.block_size if self.short else 0
        self.refused = -1  # free blocks that were too few for any that waits
        self.graphs = not self.vllm_config.model_config.enforce_eager
        self.decoded = 0  # steps since the last that read prompts,
        self.idle = 0  # and sequences that could have begun, in all of them

    def take(self) -> dict[Any, Written]:
        """What was written since it was last taken."""
        written, self.written = self.written, {}
        self.notes.clear()  # of requests that were given up
        return written

    def noted(self: Any) -> dict[Any, Piece]:
        """What there is of the sequences that go on, by the number in their ROW."""
        pieces: dict[Any, Piece] = {}
        for one, note in self.notes.items():
            if request := self.requests.get(one):
                logp = None if note.logp is None else list(note.logp)
                pieces[note.number] = Piece(list(request._output_token_ids), logp)
        return pieces

    def add_request(self: Any, request: Request) -> None:
        """As vLLM's; a request that has a row's number is noted, so that its answer is written here."""
        params = request.sampling_params
        number = ((params and params.extra_args) or {}).get(ROW)
        if self.short and number is not None:
            ends: set[Any] = set(params.stop_token_ids or ()) | {params.eos_token_id} - {None}
            last = min(request.num_prompt_tokens + request.max_tokens, self.max_model_len)
            logp = None if params.logprobs is None else []
            self.notes[request.request_id] = Note(number, frozenset(ends), last, logp)
        super().add_request(request)

    def schedule(self: Any, *args: Any, **kwargs: Any) -> SchedulerOutput:
        """As vLLM's; the fast way where all that runs takes one token more and nothing waits."""
        chosen = self.decoding() if self.notes else None
        if chosen:
            return self.advance(*chosen)
        plan = super().schedule(*args, **kwargs)
        told = plan.scheduled_cached_reqs
        only_decoded = not plan.scheduled_new_reqs and plan.total_num_scheduled_tokens == len(told.req_ids) > 0
        waited = self.get_num_unfinished_requests() > len(self.running)
        if not only_decoded:
            self.decoded = self.idle = 0
        self.refused = self.free() if waited and only_decoded and not told.resumed_req_ids else -1
        return plan

    def free(self: Any) -> int:
        """Blocks of the cache that no sequence has."""
        return self.kv_cache_manager.block_pool.get_num_free_blocks()

    def settled(self: Any) -> bool:
        """Whether none that waits could begin now, or the empty places have cost less than reading prompts would."""
        could = self.startable()
        if not could or self.free() <= self.refused:
            return True
        return self.graphs and self.decoded < APART and self.idle + could < READING * len(self.running)

    def startable(self: Any) -> int:
        """How many of those that wait have a place."""
        return min(self.get_num_unfinished_requests(), self.max_num_running_reqs) - len(self.running)

    def decoding(self: Any) -> tuple[list[Request], list[Request]] | None:
        """The sequences that take a token now and those of them whose blocks are full; None for any other step."""
        if self._pause_state.value or not self.settled():
            return None
        chosen: list[Request] = []
        full: list[Request] = []
        longest, block = self.max_model_len - 1, self.block
        for request in self.running:
            ahead, computed = request.num_output_placeholders, request.num_computed_tokens
            if ahead and computed + 2 - ahead >= request.num_prompt_tokens + request.max_tokens:
                continue  # its last token is being drawn
            if len(request._all_token_ids) + ahead - computed != 1 or self.void(request):
                return None
            if computed >= longest:
                continue
            chosen.append(request)
            if computed % block == 0:
                full.append(request)
        if not chosen or len(chosen) > self.max_num_scheduled_tokens or len(full) > self.free():
            return None
        if not self.use_v2_model_runner and any(r.request_id not in self.prev_step_scheduled_req_ids for r in chosen):
            return None
        return chosen, full

    def advance(self: Any, chosen: list[Request], full: list[Request]) -> SchedulerOutput:
        """A step of one token for each of the chosen, with a block more for those whose last is full."""
        self.current_step += 1
        self.decoded += 1
        self.idle += self.startable()
        self.kv_cache_manager.new_step_starts()
        blocks = one_block_each(self.kv_cache_manager, full) if full else {}
        ids = [request.request_id for request in chosen]
        output = SchedulerOutput.make_empty()
        told = output.scheduled_cached_reqs
        told.req_ids, told.new_block_ids = ids, [blocks.get(one) for one in ids]
        told.num_computed_tokens = [r.num_computed_tokens for r in chosen]
        told.num_output_tokens = [len(r._output_token_ids) + r.num_output_placeholders for r in chosen]
        output.num_scheduled_tokens = dict.fromkeys(ids, 1)
        output.total_num_scheduled_tokens = len(ids)
        output.num_common_prefix_blocks = [0]
        output.preempted_req_ids = self.reset_preempted_req_ids
        output.finished_req_ids = self.finished_req_ids
        output.new_block_ids_to_zero = self._get_new_block_ids_to_zero()
        ahead = int(self.asynchronous)
        for request in chosen:
            request.num_computed_tokens += 1
            request.num_in_flight_tokens += 1
            request.num_output_placeholders += ahead
        if not self.use_v2_model_runner:
            self.prev_step_scheduled_req_ids = set(ids)
        self.finished_req_ids, self.reset_preempted_req_ids = set(), set()
        return output

    def update_from_output(self: Any, scheduler_output: SchedulerOutput, model_runner_output: Any) -> Any:
        """As vLLM's for requests that ended or are not noted; tokens of all others are only written down."""
        if not self.notes:
            return super().update_from_output(scheduler_output, model_runner_output)
        logprobs, model_runner_output.logprobs = model_runner_output.logprobs, None  # noted here; not passed on
        logp = None if logprobs is None else logprobs.logprobs[:, 0].tolist()
        others = self.write(scheduler_output, model_runner_output, logp)
        counts = {one: count for one, count in scheduler_output.num_scheduled_tokens.items() if one in others}
        before = {one: len(request._output_token_ids) for one, (request, _) in others.items() if request}
        outputs = super().update_from_output(
            replace(scheduler_output, num_scheduled_tokens=counts), model_runner_output
        )
        for one in before.keys() & self.notes.keys():
            (request, place), note = others[one], self.notes[one]
            if note.logp is not None and len(request._output_token_ids) > before[one]:
                note.logp.append(logp[place])
            if request.is_finished():
                finish = str(request.get_finished_reason())
                self.written[note.number] = Written(list(request._output_token_ids), note.logp, finish)
                del self.notes[one]
        return outputs

    def write(self: Any, scheduler_output: SchedulerOutput, model_runner_output: Any, logp: Any) -> dict[str, Any]:
        """Adds the new token of each sequence that plainly goes on; returns the others, which the engine sees to."""
        others: dict[str, Any] = {}
        sampled, places = model_runner_output.sampled_token_ids, model_runner_output.req_id_to_index
        requests, notes, block, ahead = self.requests, self.notes, self.block, int(self.asynchronous)
        void = self.void
        for one, count in scheduler_output.num_scheduled_tokens.items():
            request, note, place = requests.get(one), notes.get(one), places.get(one)
            if note is None or count != 1 or request is None or request.status != RUNNING or void(request):
                others[one] = request, place
                continue
            new, tokens = sampled[place], request._all_token_ids
            if len(new) != 1 or new[0] in note.ends or len(tokens) + 1 >= note.last or request.prefill_stats:
                others[one] = request, place
                continue
            tokens.append(new[0])
            request._output_token_ids.append(new[0])
            request.num_in_flight_tokens -= 1
            request.num_output_placeholders -= ahead
            if note.logp is not None:
                note.logp.append(logp[place])
            if len(tokens) % block == 0:
                request.update_block_hashes()
        return others


class FastDecodeScheduler(FastDecode, Scheduler):
    """Where the engine waits for each step's tokens before it plans the next."""


class FastDecodeAsyncScheduler(FastDecode, AsyncScheduler):
    """Where the engine plans a step while the card computes the one before."""


class WholeCompletion:
    """Mixed into a fast scheduler in a process of its own, `vllm serve`: each completion is returned once, at its end.

    The server streams what each step brings, and makes of each log-prob an object with the token's text. Whole
    completions and their log-probs as plain lists avoid that: they are returned in a field that the server passes on
    unread.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if multiprocessing.parent_process():  # else the engine would wait minutes for a server that was killed
            keeper.follow(signal.SIGKILL)
        self.passed: dict[str, int] = {}  # tokens of each request that were passed on before its end

    def add_request(self: Any, request: Any) -> None:
        """As FastDecode's, for requests that came over HTTP, whose log-probs are asked for by WANT_LOGPROBS."""
        extra = (request.sampling_params and request.sampling_params.extra_args) or {}
        if self.short and WANT_LOGPROBS in extra:
            request.sampling_params.logprobs = 0 if extra[WANT_LOGPROBS] else None
            extra[ROW] = request.request_id
        super().add_request(request)

    def update_from_output(self: Any, *args: Any) -> Any:
        """As FastDecode's; a request's last output has all its tokens that were not passed on, with their log-probs."""
        outputs = super().update_from_output(*args)
        for output in (output for group in outputs.values() for output in group.outputs):
            one = output.request_id
            if written := self.written.pop(one, None):
                output.new_token_ids = written.tokens[self.passed.pop(one, 0) :]
                output.kv_transfer_params = {LOGPROBS: written.logp}
            elif one in self.notes:
                self.passed[one] = self.passed.get(one, 0) + len(output.new_token_ids)
        return outputs


class WholeCompletionScheduler(WholeCompletion, FastDecodeScheduler):
    """Where the engine waits for each step's tokens before it plans the next."""


class WholeCompletionAsyncScheduler(WholeCompletion, FastDecodeAsyncScheduler):
    """Where the engine plans a step while the card computes the one before."""


def scheduler(asynchronous: bool) -> type[Scheduler]:
    """The class for vLLM's scheduler_cls, by whether the engine schedules asynchronously."""
    return FastDecodeAsyncScheduler if asynchronous else FastDecodeScheduler
