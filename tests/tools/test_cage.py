"""Programs that do harm if they can: none can, as root, as an ordinary user, and with either way to hide files."""

import json
import os
import pickle
import shutil
import sys
import time
from pathlib import Path
from threading import Thread

import pytest
from fixtures.hostile import Bait
from fixtures.hostile_programs import FOLDER, MARK, PROGRAMS, SLEEPERS
from fixtures.processes import children_alive, is_alive

from isentropic.tools import Limits, syscalls
from isentropic.tools.cage import LAYERS, Cage
from isentropic.tools.pool import Pool
from isentropic.tools.probe import available
from isentropic.tools.process import COMMAND, Settings

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a cage")
LEFT = [Path("/dev/shm/isentropic_hostile"), Path("isentropic_hostile")]


def pool(limits, workers=1, **settings):
    return Pool(Settings("isentropic.tools.program:run", limits, prints=True, **settings), workers)


def run(made, programs):
    trainer = str(os.getpid())
    outcomes = made([(program.replace("TRAINER", trainer), "last") for program in programs])
    return [(outcome.word, outcome.said.decode(errors="replace")) for outcome in outcomes]


@pytest.fixture
def bait():
    made = Bait(Path(FOLDER))
    yield made
    shutil.rmtree(made.path)


def check(made, bait):
    """All programs, then a sound one: the same server answers, and nothing was made."""
    run(made, ["print(1)"])
    server = made.workers[0].process
    outcomes = dict(zip(PROGRAMS, run(made, [program for program, _ in PROGRAMS.values()]), strict=True))
    wrong = {
        name: (word, said[:300])
        for name, (word, said) in outcomes.items()
        if word not in PROGRAMS[name][1] or MARK in said
    }
    assert wrong == {}
    assert run(made, ["print(2**10)"]) == [("ok", "1024\n")]
    assert made.workers[0].process is server and server.poll() is None
    assert bait.untouched() and not any(path.exists() for path in LEFT)
    assert children(made.workers[0]) == []


def children(worker):
    """Of the process that forks, which in namespaces is itself the child of the one that was started."""
    found = children_alive()
    first = found.get(worker.process.pid, [])
    return [child for one in first for child in found.get(one, [])] if "namespaces" in worker.had else first


LIMITS = Limits(cpu=0.2, wall=60.0, memory=1.0, output=10_000)


@linux
@pytest.mark.parametrize(
    "weaker", [(), *(pytest.param((layer,), marks=pytest.mark.slow) for layer in ("landlock", "namespaces"))]
)
@pytest.mark.parametrize("user", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_hostile_program_does_what_it_wants(bait, weaker, user, request):
    if "landlock" in weaker and "namespaces" not in available():
        pytest.skip("without Landlock this needs namespaces")
    made = pool(LIMITS, weaker=weaker, command=request.getfixturevalue("another_user") if user else COMMAND)
    try:
        check(made, bait)
        assert {layer.split()[0] for layer in made.workers[0].had}.isdisjoint(weaker)
    finally:
        made.close()


@linux
def test_what_sleeps_ends_by_the_clock():
    made = pool(Limits(cpu=10.0, wall=0.5, memory=1.0, output=1000))
    try:
        assert [word for word, _ in run(made, SLEEPERS.values())] == ["timeout"] * len(SLEEPERS)
        assert children(made.workers[0]) == []
    finally:
        made.close()


@linux
@pytest.mark.parametrize("weaker", [[], ["namespaces"]])
def test_a_child_that_takes_back_its_death_signal_dies_with_its_server(weaker):
    """In the state of the process, since where the first process reaps nobody a dead one stays as a zombie."""
    made = pool(Limits(cpu=100.0, wall=1000.0, memory=1.0, output=1000), weaker=weaker)
    program = "import ctypes, time\nctypes.CDLL(None).prctl(1, 0, 0, 0, 0)\ntime.sleep(1000)"
    worker = made.workers[0]
    worker.start()
    thread = Thread(target=worker.ask, args=(pickle.dumps((program, "all")),), daemon=True)
    thread.start()
    while not (found := children(worker)):
        time.sleep(0.01)
    time.sleep(0.2)  # for it to reach its sleep
    os.kill(found[0], 0)
    worker.process.kill()
    while is_alive(found[0]):
        time.sleep(0.01)
    made.close()
    thread.join()


@linux
def test_the_numbers_of_system_calls_are_those_of_the_kernel():
    headers = [Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm-generic/unistd.h")]
    if not all(header.is_file() for header in headers):
        pytest.skip("the kernel's headers are not here")
    for machine, header in enumerate(headers):
        known = {}
        for line in header.read_text().splitlines():
            words = line.split()
            if len(words) >= 3 and words[0] == "#define" and words[1].startswith(("__NR_", "__NR3264_")):
                known.setdefault(words[1].removeprefix("__NR_").removeprefix("__NR3264_"), words[2])
        for name, numbers in syscalls.ALLOWED.items():
            if numbers[machine] is not None:
                name = {"newfstatat": "fstatat"}.get(name, name) if machine else name
                assert known[name] == str(numbers[machine]), (header.name, name)


@pytest.mark.parametrize("machine", syscalls.MACHINES)
def test_a_filter_fits_into_the_kernel(machine):
    steps = syscalls.filter_of(machine)
    assert len(steps) % 8 == 0 and len(steps) // 8 < 4096


def test_an_unknown_machine_has_no_filter():
    with pytest.raises(KeyError):
        syscalls.filter_of("riscv64")


def test_a_machine_with_less_than_it_must_have_is_refused_in_a_sentence_or_warned_of():
    assert Cage().check(["landlock 7", "seccomp", "process limits"]) is None
    assert Cage().check(["seccomp", "namespaces", "process limits"]) is None
    with pytest.raises(ValueError, match=r"has no landlock or namespaces .*task\.cage\.required=false"):
        Cage().check(["seccomp", "process limits"])
    with pytest.raises(ValueError, match="has no seccomp and no landlock or namespaces"):
        Cage().check(["process limits"])
    assert "rights of whoever trains" in Cage(required=False).check(["process limits"])
    assert Cage([]).check(["process limits"]) is None


def test_layers_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="asks for 'moat or seccomp'; it is a list of landlock, seccomp, namespaces"):
        Cage(["moat or seccomp"])


@linux
def test_the_environment_holds_no_key(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "hidden")
    monkeypatch.setenv("HTTPS_PROXY", "hidden")
    made = pool(Limits(cpu=5.0, wall=50.0, memory=1.0, output=10_000))
    try:
        ((word, said),) = run(made, ["import os, json\nprint(json.dumps(dict(os.environ)))"])
        assert word == "ok" and "hidden" not in said and json.loads(said)["PYTHONHASHSEED"] == "0"
    finally:
        made.close()


@linux
def test_a_probe_finds_what_a_server_has():
    assert {layer.split()[0] for layer in available()} <= {*LAYERS, "process"}
    assert "seccomp" in available()
