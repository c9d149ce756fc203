"""Can a run start here? `python -m isentropic preflight experiment=... trainer=...`, with the settings of the run.

Under srun or torchrun, one process per GPU as for the run itself; by hand it starts as many as trainer.devices. Prints
who is where, with which versions and settings of NCCL; sends a sum around; starts the sampler once; says in words what
is wrong. Exit code 1 if anything is. Limits in seconds are settings too: `limits.sampler=60`.
"""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from isentropic.config.build import BadInput, bad_input
from isentropic.config.compose import check_jobs, compose, loader_of
from isentropic.config.entry import CONFIGS, one_sentence, quiet, read_environment
from isentropic.launching.facts import NO_DEVICE, Facts, look, spans, table, wrong
from isentropic.launching.place import Place, barred, place

if TYPE_CHECKING:
    from isentropic.launching.meeting import Meeting

ALONE = "--sampler"  # what a process is called with that only starts the sampler
GRACE = 10.0  # seconds that ranks may be apart when each keeps to its own limit


def main(arguments: Sequence[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    read_environment()
    quiet()
    with one_sentence():
        if ALONE in arguments:
            start_sampler(settings([one for one in arguments if one != ALONE]))
            return 0
        with bad_input():
            mine = place(os.environ)
        if reason := barred(mine, os.environ):
            raise BadInput(reason)
        cfg = settings([*arguments])
        tasks = cfg.trainer.devices if isinstance(cfg.trainer.devices, int) and cfg.trainer.devices > 0 else None
        if mine.launcher is None and tasks and tasks > 1 and cfg.trainer.num_nodes == 1:
            return with_further(cfg, tasks, arguments)
        return check(cfg, mine, tasks, arguments)


def settings(overrides: list[str]) -> DictConfig:
    """Raises BadInput."""
    loader = loader_of(CONFIGS)
    check_jobs(loader, "preflight", overrides, sweep=False)
    return compose(loader, "preflight", overrides)


def with_further(cfg: DictConfig, tasks: int, arguments: Sequence[str]) -> int:
    from isentropic.launching.trials import python, start_further

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    children = start_further(tasks, port, python(*arguments))
    try:
        return check(cfg, place(os.environ), tasks, arguments)
    finally:
        for child in children:
            try:
                child.wait(GRACE)
            except subprocess.TimeoutExpired:
                child.kill()


def check(cfg: DictConfig, mine: Place, tasks: int | None, arguments: Sequence[str]) -> int:
    """Of this rank: the exit code, the same on all that met. Raises BadInput where they cannot meet."""
    from isentropic.launching import trials
    from isentropic.launching.meeting import Meeting

    facts, limits = look(mine, cfg.trainer.accelerator, tasks, cfg.trainer.num_nodes), cfg.limits
    cuda, alone = facts.card is not None, trials.python(*arguments, ALONE)
    engine = starts_engine(cfg.sampler, mine.rank)
    with bad_input():
        meeting = Meeting(mine, limits.meet)
        meeting.bring("facts", asdict(facts))
        found = introduce(meeting, limits.meet) if mine.rank == 0 else []
        steps: list[tuple[str, float, Callable[[], list[str]]]] = [
            ("files", limits.files, lambda: trials.files(meeting, Path(cfg.paths.logs), limits.files)),
            ("all-reduce", limits.all_reduce, lambda: trials.all_reduce(meeting, cuda, limits.all_reduce)),
            ("sampler", limits.sampler, lambda: trials.sampler(meeting, alone, cuda, limits.sampler) if engine else []),
        ]
        if meeting.hear("together", 2 * limits.meet):
            for name, limit, trial in steps:
                found += attempt(meeting, name, limit, trial)
        return conclude(meeting, found)


def introduce(meeting: "Meeting", limit: float) -> list[str]:
    """Prints who came; returns what is wrong with them, and tells all whether it makes sense to go on."""
    everyone = [Facts(**facts) for facts in meeting.collect("facts", limit).values()]
    print(table(everyone), flush=True)
    absent = sorted(set(range(meeting.place.size)) - {facts.rank for facts in everyone})
    found = wrong(everyone)
    if absent:
        found.insert(0, f"rank {spans(absent)} of {meeting.place.size} did not come within {limit:g} s (limits.meet)")
    meeting.tell("together", not absent and not any(facts.device == NO_DEVICE for facts in everyone))
    return found


def attempt(meeting: "Meeting", name: str, limit: float, trial: Callable[[], list[str]]) -> list[str]:
    """Tries on this rank; on rank 0, prints how it went on all, and returns what went wrong."""
    begun = monotonic()
    said = trial()
    meeting.bring(name, {"said": said, "seconds": monotonic() - begun})
    if meeting.place.rank != 0:
        return []
    results = meeting.collect(name, limit + GRACE)
    silent = sorted(set(range(meeting.place.size)) - set(results))
    found = [text for result in results.values() for text in result["said"]]
    if silent:
        found.append(f"rank {spans(silent)} did not end the {name} trial within {limit:g} s")
    seconds = max((result["seconds"] for result in results.values()), default=0.0)
    print(f"{name}: {'failed' if found else 'works'} on {meeting.place.size} ranks, {seconds:.1f} s", flush=True)
    return found


def conclude(meeting: "Meeting", found: list[str]) -> int:
    """Rank 0 says what is wrong and leaves last, as the others hear of it from a store that it keeps."""
    if meeting.place.rank != 0:
        code = int(meeting.hear("code", GRACE))
        meeting.bring("leaving", True)
        return code
    for text in found:
        print(f"wrong: {text}", flush=True)
    if not found:
        print("nothing is wrong", flush=True)
    meeting.tell("code", int(bool(found)))
    meeting.bring("leaving", True)
    meeting.collect("leaving", GRACE)
    return int(bool(found))


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
        if not sampler.apart:  # else it has answered when it was started
            sampler.sample([[2, 3, 4]], 1, [0], decoding)
        sampler.stop()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # a collective that hangs holds its thread for ever
