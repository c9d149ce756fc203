"""Rows that an engine in this process writes turn after turn, each on its own: none waits for another's world."""

# pyright: basic

from collections.abc import Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

from isentropic.sampler import Completion, Decoding, Reply, Request
from isentropic.sampler.ends import Ends
from isentropic.sampler.vllm.sampling_params import Row, completion_of, draws, joined, rest_of


class Conversation:
    """The engine steps in this thread. A reply is a future, whose request joins those that are written at present."""

    def __init__(self, engine: Any, scheduler: Any, decoding: Decoding, ends: Ends) -> None:
        self.engine, self.scheduler = engine, scheduler  # vLLM's LLM; None where the scheduler is vLLM's own
        self.decoding, self.ends = decoding, ends
        self.rows: dict[int, Row] = {}  # of the turns that are written at present
        self.written: dict[int, Completion] = {}  # of rows whose turn takes another request
        self.running: dict[str, int] = {}  # places by the names of their requests
        self.arrived: SimpleQueue[tuple[int, Future[Request | None]]] = SimpleQueue()
        self.pending = 0  # replies that are still to come
        self.prompt_tokens = self.cached_tokens = 0  # of turns, as the engine counts them

    def run(self, rows: Sequence[Row], reply: Reply) -> None:
        """Until each row has had its last turn; what a reply raises ends them all, and is raised."""
        try:
            self.add(dict(enumerate(rows)))
            while self.running or self.pending:
                self.add(self.replied())
                if self.running:
                    self.step(reply)
        except BaseException:
            self.engine.llm_engine.abort_request(list(self.running))
            raise
        finally:
            if self.scheduler is not None:
                self.scheduler.take()

    def add(self, rows: dict[int, Row]) -> None:
        """New turns of these rows, by their places."""
        self.rows |= rows
        self.ask(rows)

    def ask(self, rows: dict[int, Row]) -> None:
        """Requests of the engine; a row has one at a time."""
        if not rows:
            return
        prompts = [{"prompt_token_ids": row.prompt} for row in rows.values()]
        params = [draws(self.decoding, place, row, self.ends.ids) for place, row in rows.items()]
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
