import socket
import threading

import pytest

from isentropic.launching.meeting import Meeting
from isentropic.launching.place import Place


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def at(rank, size, port):
    return Place(rank, size, rank, "n1", "127.0.0.1", port, "srun")


def test_each_hears_what_rank_0_tells_and_rank_0_collects_what_each_brings():
    port, heard = free_port(), []

    def other():
        meeting = Meeting(at(1, 2, port), 10.0)
        meeting.bring("facts", {"host": "n2"})
        heard.append(meeting.hear("go", 10.0))

    thread = threading.Thread(target=other)
    thread.start()
    meeting = Meeting(at(0, 2, port), 10.0)
    meeting.bring("facts", {"host": "n1"})
    assert meeting.collect("facts", 10.0) == {0: {"host": "n1"}, 1: {"host": "n2"}}
    meeting.tell("go", True)
    thread.join()
    assert heard == [True]


def test_who_does_not_come_is_missing_and_waited_for_no_longer_than_said():
    meeting = Meeting(at(0, 3, free_port()), 10.0)
    meeting.bring("facts", 1)
    assert meeting.collect("facts", 0.2) == {0: 1}
    with pytest.raises(ValueError, match=r"rank 0 on n1 heard nothing from rank 0 within 0.1 s \(go\)"):
        meeting.hear("go", 0.1)


def test_a_rank_0_that_is_not_there_and_a_port_that_is_taken_are_told():
    with pytest.raises(ValueError, match="rank 1 on n1 cannot reach rank 0 at MASTER_ADDR="):
        Meeting(at(1, 2, free_port()), 1.0)
    with socket.create_server(("", 0)) as server, pytest.raises(ValueError, match="set another MASTER_PORT"):
        Meeting(at(0, 2, server.getsockname()[1]), 1.0)
