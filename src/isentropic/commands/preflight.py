"""Can a run start here? `isentropic preflight experiment=... trainer=...`, with the settings of the run.

Under srun or torchrun, one process per GPU as for the run itself; by hand it starts as many as trainer.devices. Prints
who is where, with which versions and settings of NCCL; sends a sum around; starts the sampler once; says in words what
is wrong. Exit code 1 if anything is. Limits in seconds are settings too: `limits.sampler=60`.
"""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from isentropic.config.build import bad_input
from isentropic.config.compose import check_jobs, compose, loader_of
from isentropic.config.entry import CONFIGS, one_sentence, quiet, read_environment

CHECKED, SAMPLER_ONLY = "--checked", "--sampler"  # to processes of its own: the settings are; start the sampler alone
GRACE = 10.0  # seconds for the other ranks to leave after this one


def main(arguments: Sequence[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    read_environment()
    quiet()
    with one_sentence():
        loader, overrides = loader_of(CONFIGS), [one for one in arguments if one not in (CHECKED, SAMPLER_ONLY)]
        if CHECKED not in arguments:
            check_jobs(loader, "preflight", overrides, sweep=False)
        cfg = compose(loader, "preflight", overrides)
        if SAMPLER_ONLY in arguments:
            start_sampler(cfg)
            return 0
        return check(cfg, overrides)


def check(cfg: DictConfig, overrides: list[str]) -> int:
    """Raises BadInput where ranks cannot meet."""
    from isentropic.launching.node_info import find_rank, inspect
    from isentropic.launching.preflight import Limits, preflight

    again = [sys.executable, "-m", "isentropic", "preflight", *overrides, CHECKED]
    trainer, children = cfg.trainer, list[subprocess.Popen[bytes]]()
    tasks = trainer.devices if isinstance(trainer.devices, int) and trainer.devices > 0 else None
    with bad_input():
        rank = find_rank(os.environ)
        if rank.launcher is None and tasks and tasks > 1 and trainer.num_nodes == 1:
            children = start_other_ranks(tasks, again)
            rank = find_rank(os.environ)
        info = inspect(rank, trainer.accelerator, tasks, trainer.num_nodes)
        command = [*again, SAMPLER_ONLY] if starts_engine(cfg.sampler, rank.rank) else None
        try:
            return preflight(rank, info, Path(cfg.paths.logs), command, Limits(**cfg.limits))
        finally:
            for child in children:
                try:
                    child.wait(GRACE)
                except subprocess.TimeoutExpired:
                    child.kill()


def start_other_ranks(size: int, command: Sequence[str]) -> list[subprocess.Popen[bytes]]:
    """Ranks 1 and on of this machine, where no launcher has started them; this process becomes rank 0."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    os.environ |= {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0"}
    ranks = ({"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(1, size))
    return [subprocess.Popen(command, env=os.environ | own, stdin=subprocess.DEVNULL) for own in ranks]


def starts_engine(sampler: DictConfig, rank: int) -> bool:
    """Whether this rank tries one: a server that is started is one for all, on cards that have room for no other."""
    return rank == 0 or "url" not in sampler or sampler.url is not None


def start_sampler(cfg: DictConfig) -> None:
    from isentropic.config.build import build
    from isentropic.sampler import Decoding
    from isentropic.train import fall_back

    fall_back(cfg)
    if "load_format" in cfg.sampler:  # an engine in this process, which is alone and to which no policy sends weights
        cfg.sampler.tensor_parallel_size, cfg.sampler.load_format = 1, "auto"
    if "log" in cfg.sampler:  # there is no run folder
        cfg.sampler.log = str(Path(tempfile.gettempdir()) / "isentropic-server.log")
    sampler = build(cfg, "sampler")
    with bad_input("sampler"):
        sampler.start()
        decoding = Decoding(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=2, stop=None)
        if not sampler.is_remote:  # else it has answered when it was started
            sampler.sample([[2, 3, 4]], 1, [0], decoding)
        sampler.stop()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # a collective that hangs holds its thread for ever
