"""Rows that an engine in this process writes turn after turn, each on its own: none waits for another's world."""

# pyright: basic

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import islice
from queue import SimpleQueue
from typing import Any

from isentropic.sampler import Completion, Decoding, Done, Halted, Piece, Reply, Request, once
from isentropic.sampler.ends import Ends
from isentropic.sampler.vllm.sampling_params import Row, completion_of, drawing, joined, piece_of, rest_of


class Conversation:
    """The engine steps in this thread. A reply is a future, whose request joins those that are written at present."""

    def __init__(self, engine: Any, scheduler: Any, decoding: Decoding, ends: Ends, slots: int) -> None:
        self.engine, self.scheduler = engine, scheduler  # vLLM's LLM; None where the scheduler is vLLM's own
        self.decoding = decoding
        self.salt: str | None = None  # of what it caches, where that of older weights could not be forgotten
        self.slots = slots  # sequences that run at one time
        self.draws, self.ends = drawing(decoding, ends.ids), ends
        self.rows: dict[int, Row] = {}  # of the turns that are written at present
        self.written: dict[int, Completion] = {}  # of rows whose turn takes another request
        self.running: dict[str, int] = {}  # places by the names of their requests
        self.arrived: SimpleQueue[tuple[int, Future[Request | None]]] = SimpleQueue()
        self.pending = 0  # replies that are still to come
        self.prompt_tokens = self.cached_tokens = 0  # of turns, as the engine counts them
        self.slot_steps = self.idle_steps = 0  # a slot in each step of the engine, and those of them without a sequence

    def run(self, rows: Sequence[Row], reply: Reply) -> None:
        """Until each row has had its last turn; what a reply raises ends them all, and is raised."""
        self.slots = min(self.slots, len(rows))
        with self.whole():
            self.add(dict(enumerate(rows)))
            while self.running or self.pending:
                self.add(self.replied())
                if self.running:
                    self.step(reply)

    def run_until(
        self,
        rows: Sequence[Row],
        at_once: int,
        done: Done,
        halted: Halted,
    ) -> dict[int, Piece]:
        """As a sampler's write_until."""
        self.slots = min(self.slots, at_once, len(rows))
        with self.whole():
            self.until(halted, iter(enumerate(rows)), at_once, once(done))
            return self.halt()

    def until(self, halted: Halted, coming: Iterator[tuple[int, Row]], at_once: int, reply: Reply) -> None:
        """So many at one time of those that come, and of what runs already."""
        while not halted():
            self.add(dict(islice(coming, at_once - len(self.running))))
            if not self.running:
                break
            self.step(reply)
            self.replied()

    @contextmanager
    def whole(self) -> Generator[None]:
        """An error inside ends all rows; nothing of them is left in the scheduler afterwards."""
        try:
            yield
        except BaseException:
            self.abort()
            raise
        finally:
            if self.scheduler is not None:
                self.scheduler.take()

    def halt(self) -> dict[int, Piece]:
        """What has been written of the rows that run, which then run no more."""
        pieces = {self.running[name]: piece for name, piece in self.running_pieces().items()}
        self.abort()
        core = self.engine.llm_engine.engine_core.engine_core
        while getattr(core, "batch_queue", None):  # steps that a card computes ahead, of what has been ended
            self.engine.llm_engine.step()
        return pieces

    def running_pieces(self) -> dict[str, Piece]:
        """What has been written of the rows that run, by the names of their requests."""
        states = self.engine.llm_engine.output_processor.request_states
        noted = self.scheduler.noted() if self.scheduler is not None else {}
        names = {state.external_req_id.split("-")[0]: state for state in states.values()}
        pieces: dict[str, Piece] = {}
        for name, place in self.running.items():
            piece = noted[place] if place in noted else piece_of(names[name])
            if before := self.written.get(place):
                logp = None if before.logp is None or piece.logp is None else before.logp + piece.logp
                piece = Piece(before.tokens + piece.tokens, logp)
            pieces[name] = piece
        return pieces

    def abort(self) -> None:
        """Ends all that runs."""
        self.engine.llm_engine.abort_request(list(self.running))
        self.running = {}

    def add(self, rows: dict[int, Row]) -> None:
        """New turns of these rows, by their places."""
        self.rows |= rows
        self.ask(rows)

    def ask(self, rows: dict[int, Row]) -> None:
        """Requests of the engine; a row has one at a time."""
        if not rows:
            return
        salt = {"cache_salt": self.salt} if self.salt else {}
        prompts = [{"prompt_token_ids": row.prompt} | salt for row in rows.values()]
        params = [self.draws(place, row) for place, row in rows.items()]
        names = self.engine.enqueue(prompts, params, use_tqdm=False)
        # what comes back bears the name without the letters that tell it from others' behind a dash
        self.running |= {name.split("-")[0]: place for name, place in zip(names, rows, strict=True)}

    def replied(self) -> dict[int, Row]:
        """The next turns of the rows whose replies have come; waits for one where nothing else is to be done."""
        rows: dict[int, Row] = {}
        while self.pending and (not self.arrived.empty() or not (rows or self.running)):
            place, future = self.arrived.get()
            self.pending -= 1
            if request := future.result():
                rows[place] = Row(list(request.prompt), request.seed, self.rows[place].says, request.limit)
        return rows

    def step(self, reply: Reply) -> None:
        """One step of the engine; what has finished in it is taken from there."""
        self.slot_steps += self.slots
        self.idle_steps += max(0, self.slots - len(self.running))
        for output in self.engine.llm_engine.step():
            if not output.finished:
                continue
            place = self.running.pop(output.request_id)
            noted = self.scheduler.written.pop(place, None) if self.scheduler is not None else None
            self.end(place, completion_of(output.outputs[0], noted), output, reply)

    def end(self, place: int, piece: Completion, output: Any, reply: Reply) -> None:
        """A request's end: the row is asked for the rest of its turn, or its turn is replied to."""
        before = self.written.pop(place, None)
        if before is None:
            self.prompt_tokens += len(output.prompt_token_ids)
            self.cached_tokens += output.num_cached_tokens or 0
        completion = rest_of(self.rows[place], joined(before, piece), self.ends)
        if isinstance(completion, Row):
            self.written[place] = joined(before, piece)
            self.ask({place: completion})
            return
        self.pending += 1
        reply(place, completion).add_done_callback(lambda done: self.arrived.put((place, done)))
