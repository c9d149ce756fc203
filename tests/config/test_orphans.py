import signal
import subprocess
import sys

import pytest

CHILD = """
import os, threading
from isentropic.config.orphans import end_with

end_with(os.getppid(), 0.0)
print("begun", flush=True)
threading.Event().wait()
"""
PARENT = f"""
import os, subprocess, sys

child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE, text=True)
print(child.stdout.readline().strip(), child.poll(), flush=True)
os._exit(3)
"""


def test_a_rank_that_waits_for_ever_ends_with_the_one_that_started_it():
    result = subprocess.run([sys.executable, "-c", PARENT], capture_output=True, timeout=300)
    # and all who could write to its pipes have ended, or there would be no end of what they say
    assert (result.returncode, result.stdout) == (3, b"begun None\n"), result.stderr


FAILING = """
import sys, threading
import torch.distributed as dist
from isentropic.config.orphans import end_within

rank, ranks = int(sys.argv[2]), int(sys.argv[3])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/meeting", rank=rank, world_size=ranks)
if rank == 0:
    end_within(0.5)
    threading.Event().wait(2 if ranks == 1 else None)
    print("goes on")
else:
    dist.barrier()
"""


@pytest.mark.slow
@pytest.mark.parametrize("ranks, code, said", [(2, -signal.SIGALRM, ""), (1, 0, "goes on\n")])
def test_one_of_several_ranks_that_fails_and_cannot_end_is_ended(tmp_path, ranks, code, said):
    command = [sys.executable, "-c", FAILING, tmp_path]
    started = [
        subprocess.Popen([*command, str(rank), str(ranks)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]  # fmt: skip
    found = [process.communicate(timeout=300) for process in started]
    assert (started[0].returncode, found[0][0]) == (code, said), found
    assert all(process.returncode for process in started[1:]), "who waits for it is told"
