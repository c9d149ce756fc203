"""Rows that are asked of a server, each in a thread of its own while it is written."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue

from isentropic.sampler import Completion, Reply, Request
from isentropic.sampler.ends import Ends
from isentropic.sampler.vllm.sampling_params import Row, joined, rest_of


def converse(rows: Sequence[Row], ask: Callable[[Row], Completion], reply: Reply, threads: int) -> None:
    """At most so many are asked at one time, and none while it waits for its reply.

    Raises what asking or replying raises, after which no row is asked again.
    """
    if not rows:
        return
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def go(place: int, row: Row) -> None:
        try:
            reply(place, ask(row)).add_done_callback(lambda done: go_on(place, done))
        except BaseException as error:
            ended.put(error)

    def go_on(place: int, done: "Future[Request | None]") -> None:
        try:
            if one := done.result():
                askers.submit(go, place, Row(list(one.prompt), one.seed, rows[place].says, one.limit))
            else:
                ended.put(None)
        except BaseException as error:
            ended.put(error)

    with ThreadPoolExecutor(min(len(rows), threads)) as askers:
        for place, row in enumerate(rows):
            askers.submit(go, place, row)
        for _ in rows:
            if error := ended.get():
                askers.shutdown(wait=False, cancel_futures=True)
                raise error


def whole(row: Row, ask: Callable[[Row], Completion], ends: Ends) -> Completion:
    """A completion, asked for again where it ended at a token that ends nothing."""
    written: Completion | None = None
    rest: Row | Completion = row
    while isinstance(rest, Row):
        written = joined(written, ask(rest))
        rest = rest_of(row, written, ends)
    return rest
