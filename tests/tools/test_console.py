"""Programs of an episode with the variables of those before them: the same cage, and nobody else's variables."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from fixtures.hostile import Bait
from fixtures.hostile_programs import FOLDER, MARK, PROGRAMS, SLEEPERS
from fixtures.processes import children_alive, is_alive, stat_of

from isentropic.tools import Limits
from isentropic.tools.console import COMMAND, Console, Consoles
from isentropic.tools.probe import available

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a cage")
LIMITS = Limits(cpu=20.0, wall=60.0, memory=1.0, output=10_000)
# a console has a channel to its keeper, who is no fool
CHANNELS = {"open files": {"ok"}, "forged response": {"crash"}, "forged response at the end": {"crash"}}


@pytest.fixture(scope="module")
def consoles():
    made = Consoles(LIMITS, 5.0, "last", 4)
    yield made
    made.close()


@pytest.fixture
def console(consoles):
    made = Console(consoles)
    yield made
    made.close()


def said(console, program):
    outcome = console.ask(program.encode())
    return outcome.said.decode(), outcome.word, outcome.alive


def below(first):
    """All that a process has started, as far as it lives, by their numbers."""
    parents, found = children_alive(), [first]
    for one in found:
        found += parents.get(one, [])
    return found[1:]


def until(condition):
    while not condition():
        time.sleep(0.01)


def test_variables_functions_and_imports_are_there_in_the_next_program(console):
    assert said(console, "import math\nx = 3\ndef f(y): return x * y") == ("", "ok", True)
    assert said(console, "x += 1\nprint(f(2), math.floor(2.5))") == ("8 2\n", "ok", True)


@pytest.mark.parametrize(
    ("program", "text", "word"),
    [
        ("y = 2\n1/0", "ZeroDivisionError: division by zero\n", "error"),
        ("y = 2\nraise SystemExit(3)", "", "error"),
        ("y = 2\nraise KeyboardInterrupt", "KeyboardInterrupt\n", "error"),
        ("y = 2\nimport sys\nsys.exit()", "", "ok"),
        ("y = 2\nprint('\\ud800\\x00\\x1b[31m')", "?\x00\x1b[31m\n", "ok"),
    ],
)
def test_an_error_or_an_exit_ends_the_program_and_not_the_variables(console, program, text, word):
    assert said(console, "x = 1") == ("", "ok", True)
    assert said(console, program) == (text, word, True)
    assert said(console, "print(x, y)") == ("1 2\n", "ok", True)


@pytest.mark.parametrize(
    ("program", "word"),
    [
        ("while True: pass", "timeout"),
        ("y = 'a' * 10**11", "memory"),
        ("print('a' * 20_000)", "output"),
        ("import os\nos._exit(0)", "ok"),
        ("import os\nos.abort()", "crash"),
        ("import os\nfor end in range(10): os.close(end)", "error"),
        ("import os\nos.write(3, b'\\0\\0')", "crash"),
    ],
)
def test_what_ends_the_process_is_one_outcome_and_the_next_program_begins_without_variables(consoles, program, word):
    made = Console(Consoles(LIMITS, 0.5, "last", 1)) if word == "timeout" else Console(consoles)
    assert said(made, "x = 1")[1:] == ("ok", True)
    assert said(made, program)[1:] == (word, False)
    assert said(made, "print(x)") == ("NameError: name 'x' is not defined\n", "error", True)
    made.close()
    if word == "timeout":
        made.consoles.close()


def test_cpu_time_is_counted_over_all_programs_of_an_episode():
    made = Consoles(Limits(cpu=1.0, wall=60.0, memory=1.0, output=1000), 0.7, "last", 1)
    console, burn = Console(made), "import time\nwhile time.process_time() < {}: pass"
    assert said(console, burn.format(0.5))[1:] == ("ok", True)
    assert said(console, "while True: pass")[1:] == ("timeout", False)
    left = console.left
    assert left < 0.1 and (left <= 0 or said(console, "while True: pass")[1] == "timeout")
    assert said(console, "print(1)") == ("the episode has no CPU time left", "timeout", False)
    made.close()


def test_memory_is_counted_over_all_programs_of_an_episode(console):
    words = [said(console, f"import numpy\nx{number} = numpy.empty(4 * 10**8, 'u1')")[1] for number in range(3)]
    assert words[0] == "ok" and "memory" in words


def test_what_goes_on_in_a_thread_stands_still_between_programs(console):
    count = "import threading\nn = 0\ndef f():\n    global n\n    while True: n += 1\n"
    assert said(console, f"{count}threading.Thread(target=f, daemon=True).start()")[1:] == ("ok", True)
    (keeper,) = below(console.consoles.process.pid)[-2:-1]
    (child,) = below(keeper)
    until(lambda: stat_of(child)[:1] == ["T"])
    spent = stat_of(child)[11:13]
    time.sleep(0.1)
    assert stat_of(child)[11:13] == spent != []
    assert said(console, "print(n > 0)") == ("True\n", "ok", True)


def test_no_episode_finds_what_another_knows(consoles):
    mine, other, later = Console(consoles), Console(consoles), Console(consoles)
    assert said(other, "x = 1")[1] == "ok"
    assert said(mine, "secret = 'ISENTROPIC' + 'MARK'")[1] == "ok"
    assert said(later, "print('secret' in globals(), x)")[0] == "NameError: name 'x' is not defined\n"
    holders = {one for one in below(consoles.process.pid) if b"ISENTROPIC" + b"MARK" in memory(one)}
    keepers = [one for one in below(consoles.process.pid) if set(below(one)) & holders]
    assert len(holders) == 1 and b"ISENTROPIC' + 'MARK" not in memory(consoles.process.pid)
    assert len({one for one in below(consoles.process.pid) if b"ISENTROPIC' + 'MARK" in memory(one)}) <= 2
    assert keepers
    for one in (mine, other, later):
        one.close()


def memory(process):
    """What it can write to."""
    found = bytearray()
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as file:
        for line in maps:
            place, rights = line.split()[:2]
            if rights.startswith("rw"):
                start, end = (int(one, 16) for one in place.split("-"))
                try:
                    file.seek(start)
                    found += file.read(end - start)
                except (OSError, ValueError, OverflowError):
                    continue
    return found


@pytest.mark.parametrize("user", [False, True])
@pytest.mark.parametrize(
    "weaker", [(), *(pytest.param((layer,), marks=pytest.mark.slow) for layer in ("landlock", "namespaces"))]
)
@pytest.mark.slow
def test_no_hostile_program_does_what_it_wants_to_its_own_or_another_episode(weaker, user, request):
    if "landlock" in weaker and "namespaces" not in available():
        pytest.skip("without Landlock this needs namespaces")
    command = (*request.getfixturevalue("another_user")[:-1], COMMAND[-1]) if user else COMMAND
    bait, trainer = Bait(Path(FOLDER)), str(os.getpid())
    made = Consoles(LIMITS, 0.2, "last", 1, command, weaker)
    steady, wrong = Console(made), {}
    assert said(steady, "kept = 7")[1] == "ok"
    server = made.process.pid
    for name, (program, words) in PROGRAMS.items():
        console = Console(made)
        assert said(console, "x = 1")[1] == "ok"
        text, word, _ = said(console, program.replace("TRAINER", trainer))
        if word not in CHANNELS.get(name, words) or (MARK in text and name not in CHANNELS):
            wrong[name] = (word, text[:300])
        after = said(console, "print(2**10)")
        if after[1] == "ok" and after[0] != "1024\n" and name != "broken builtins":
            wrong[f"after {name}"] = after
        console.close()
    assert wrong == {}
    assert said(steady, "print(kept)") == ("7\n", "ok", True) and made.process.pid == server
    assert bait.untouched() and not Path("/dev/shm/isentropic_hostile").exists()
    until(lambda: len(below(server)) <= 3)  # in namespaces the server's child, the keeper of the steady one, its child
    made.close()


def test_what_sleeps_ends_by_the_clock():
    made = Consoles(Limits(cpu=10.0, wall=0.5, memory=1.0, output=1000), 5.0, "last", 1)
    console = Console(made)
    assert [said(console, program)[1:] for program in SLEEPERS.values()] == [("timeout", False)] * len(SLEEPERS)
    made.close()


def test_processes_that_stay_behind_are_ended_where_nothing_keeps_a_program_from_forking():
    if os.getuid():
        pytest.skip("of an ordinary user, the limit of processes is 0")
    made = Consoles(LIMITS, 5.0, "last", 1, weaker=("seccomp",))
    console = Console(made)
    fork = "import os, time\nif not os.fork():\n    while True: time.sleep(1000)\nprint('forked')"
    assert said(console, fork) == ("forked\n", "ok", True)
    before = len(below(made.process.pid))
    console.close()
    until(lambda: len(below(made.process.pid)) == before - 3)  # keeper, child and its child
    made.close()


def test_a_console_that_is_closed_while_its_program_runs_ends_it(consoles):
    console, outcomes = Console(consoles), []
    before = set(below(consoles.process.pid)) if consoles.process else set()
    asking = threading.Thread(target=lambda: outcomes.append(console.ask(b"import time\ntime.sleep(1000)")))
    asking.start()
    until(lambda: consoles.process and len(set(below(consoles.process.pid)) - before) >= 2)
    console.close()
    asking.join()
    assert outcomes[0].word == "killed" and console.ask(b"print(1)").word == "killed" and console.connection is None
    until(lambda: set(below(consoles.process.pid)) <= before | set(below(consoles.process.pid)[:1]))


def test_a_server_that_was_killed_costs_the_variables_and_another_takes_its_place():
    made = Consoles(LIMITS, 5.0, "last", 1)
    console = Console(made)
    assert said(console, "x = 1")[1] == "ok"
    processes = below(made.process.pid)
    made.process.kill()
    made.process.wait()
    until(lambda: not any(is_alive(one) for one in processes))
    assert said(console, "print(x)")[1:] == ("killed", False)
    assert said(console, "print(2)") == ("2\n", "ok", True)
    made.close()


def test_nothing_is_left_of_consoles_whose_trainer_is_killed():
    code = (
        "from isentropic.tools import Limits\nfrom isentropic.tools.console import Console, Consoles\n"
        "consoles = Consoles(Limits(20.0, 60.0, 1.0, 1000), 5.0, 'last', 1)\n"
        "one, two = Console(consoles), Console(consoles)\none.ask(b'x = 1')\nprint(consoles.process.pid, flush=True)\n"
        "two.ask(b'import time\\ntime.sleep(1000)')"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as trainer:
        server = int(trainer.stdout.readline())
        until(lambda: len(below(server)) >= 4)
        processes = [server, *below(server)]
        os.kill(trainer.pid, signal.SIGKILL)
    until(lambda: not any(is_alive(one) for one in processes))
