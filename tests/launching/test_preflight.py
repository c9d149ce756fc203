import socket
import threading
from dataclasses import replace

import pytest

from isentropic.launching.node_info import Rank
from isentropic.launching.preflight import Exchange, shared_files


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def at(rank, size, port):
    return Rank(rank, size, rank, "n1", "127.0.0.1", port, "srun")


@pytest.fixture
def ranks():
    """What a function of an exchange returns on each of two ranks, one of them in a thread."""

    def run(function):
        port, returned, exchanges = free_port(), {}, []

        def be(rank):
            exchange = Exchange(at(rank, 2, port), 10.0)
            exchanges.append(exchange)  # rank 0 keeps the store
            returned[rank] = function(exchange)

        thread = threading.Thread(target=be, args=(1,))
        thread.start()
        be(0)
        thread.join()
        return [returned[0], returned[1]]

    return run


def test_all_gather_what_each_brings_and_hear_what_rank_0_says(ranks):
    def both(exchange):
        rank = exchange.rank.rank
        return exchange.gather("info", {"host": f"n{rank}"}, 10.0), exchange.broadcast("go", rank == 0, 10.0)

    assert ranks(both) == [({0: {"host": "n0"}, 1: {"host": "n1"}}, True)] * 2


def test_who_does_not_come_is_missing_and_waited_for_no_longer_than_said():
    exchange = Exchange(at(0, 3, free_port()), 10.0)
    assert exchange.gather("info", 1, 0.2) == {0: 1}
    other = Exchange(at(1, 3, exchange.rank.port), 10.0)
    with pytest.raises(ValueError, match=r"rank 1 on n1 heard nothing from rank 0 within 0.1 s \(go\)"):
        other.broadcast("go", None, 0.1)


@pytest.mark.slow
def test_a_rank_0_that_is_not_there_a_port_that_is_taken_and_an_unknown_address_are_told():
    with pytest.raises(ValueError, match="rank 1 on n1 cannot reach rank 0 at MASTER_ADDR="):
        Exchange(at(1, 2, free_port()), 1.0)
    with socket.create_server(("", 0)) as server, pytest.raises(ValueError, match="set another MASTER_PORT"):
        Exchange(at(0, 2, server.getsockname()[1]), 1.0)
    with pytest.raises(ValueError, match=r"cannot resolve MASTER_ADDR=nobody\.invalid"):
        Exchange(replace(at(1, 2, 1), address="nobody.invalid"), 1.0)


def test_a_folder_that_is_not_shared_or_cannot_be_written_to_is_told(ranks, tmp_path):
    assert ranks(lambda exchange: shared_files(exchange, tmp_path / "logs", 10.0)) == [[], []]
    assert [*(tmp_path / "logs").iterdir()] == []
    mine, others = ranks(lambda exchange: shared_files(exchange, tmp_path / str(exchange.rank.rank), 0.3))
    assert mine == [] and "rank 1 on n1 does not see what rank 0 writes into paths.logs=" in others[0]
    (tmp_path / "file").touch()
    mine, others = ranks(lambda exchange: shared_files(exchange, tmp_path / "file" / "logs", 0.3))
    assert others == [] and "cannot be written to (Not a directory)" in mine[0]
