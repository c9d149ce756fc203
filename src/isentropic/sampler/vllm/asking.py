"""Rows that are asked of a server, each in a thread of its own while it is written."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event

from isentropic.sampler import Completion, Done, Halted, Piece, Reply, Request, seed_after
from isentropic.sampler.ends import Ends
from isentropic.sampler.vllm.sampling_params import Row, joined, rest_of

PIECE = 256  # tokens that are asked for at one time of what may be halted; the server's cache has those before them


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


def until(
    rows: Sequence[Row],
    ask: Callable[[Row], Completion],
    ends: Ends,
    done: Done,
    halted: Halted,
    threads: int,
) -> dict[int, Piece]:
    """As a sampler's write_until; `halted` is asked after every piece, and what is asked for by then is waited for.

    Raises what asking raises, after which no row is asked again.
    """
    written: dict[int, Completion] = {}
    news: SimpleQueue[tuple[int, Row | Completion | BaseException | None]] = SimpleQueue()
    stop = Event()

    def go(place: int, row: Row) -> None:
        rest: Row | Completion = row
        try:
            while isinstance(rest, Row) and not stop.is_set():
                written[place] = joined(written.get(place), ask(rest._replace(limit=min(rest.limit, PIECE))))
                rest = next_piece(row, written[place], ends)
                if isinstance(rest, Row):
                    news.put((place, rest))
            news.put((place, None if isinstance(rest, Row) else rest))
        except BaseException as error:
            news.put((place, error))

    with ThreadPoolExecutor(max(1, min(len(rows), threads))) as askers:
        for place, row in enumerate(rows):
            askers.submit(go, place, row)
        left = len(rows)
        while left:
            place, told = news.get()
            left -= not isinstance(told, Row)
            if isinstance(told, BaseException):
                stop.set()
                raise told
            if isinstance(told, Completion):
                del written[place]
                done(place, told)
            if halted():
                stop.set()
    return {place: Piece(one.tokens, one.logp) for place, one in written.items()}


def next_piece(row: Row, written: Completion, ends: Ends) -> Row | Completion:
    """What is asked for next of a row, or all of it; the end of a piece is no end."""
    length = len(written.tokens)
    if written.finish == "length" and length < row.limit:
        return Row([*row.prompt, *written.tokens], seed_after(row.seed, length), row.says, row.limit - length)
    return rest_of(row, written, ends)
