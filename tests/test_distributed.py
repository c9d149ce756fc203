import os
import socket
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch.distributed as dist

from isentropic.distributed import keep_to_this_machine, meeting_place

LISTENS = "0A"


def listening(pid: int) -> set[str]:
    """Addresses at which a process listens, as the kernel writes them: tcp:0100007F is 127.0.0.1."""
    names = (os.readlink(handle) for handle in Path(f"/proc/{pid}/fd").iterdir() if handle.is_symlink())
    own = {name.removeprefix("socket:[").removesuffix("]") for name in names if name.startswith("socket:[")}
    found: set[str] = set()
    for kind in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENS and words[9] in own:
                found.add(f"{kind}:{words[1].partition(':')[0]}")
    return found


def meet(rank: int, port: int, ours: bool, answers) -> None:
    store = meeting_place("127.0.0.1", port) if rank == 0 and ours else None
    if ours:
        keep_to_this_machine()
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    dist.barrier()
    answers.put(listening(os.getpid()))
    dist.barrier()
    del store
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("ours", [True, False])
def test_ranks_of_one_machine_listen_where_no_other_machine_comes(ours: bool):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    context = get_context("spawn")
    answers = context.Queue()
    ranks = [context.Process(target=meet, args=(rank, port, ours, answers)) for rank in range(2)]
    for one in ranks:
        one.start()
    found = answers.get(timeout=120) | answers.get(timeout=120)
    for one in ranks:
        one.join()
    assert ranks[0].exitcode == ranks[1].exitcode == 0
    assert (found == {"tcp:0100007F"}) == ours, found


def test_there_is_a_place_of_ours_on_the_loopback_alone_and_where_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert meeting_place("127.0.0.1", taken.getsockname()[1]) is None
    assert meeting_place("node7", 29500) is None
