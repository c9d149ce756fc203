import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

from isentropic.task.verifier import Verifier

TOWER = r"9^{9^{9^{9}}}"
MATHS = "isentropic.task.equality:judge"


@pytest.fixture
def verifier():
    made = Verifier(MATHS, workers=1, timeout=30.0, memory=4.0)
    yield made
    made.close()


def statuses(verdicts):
    return [verdict.status for verdict in verdicts]


@pytest.mark.slow
def test_an_answer_that_hangs_is_killed_in_time_and_later_ones_are_judged():
    verifier = Verifier(MATHS, workers=1, timeout=3.0, memory=4.0)
    verifier([("1", "1")])
    hanging = verifier.workers[0].process
    begun = time.monotonic()
    assert statuses(verifier([("9", TOWER, "math_verify")])) == ["timeout"]
    assert time.monotonic() - begun < 3.0 + 2.0
    assert hanging.poll() == -signal.SIGKILL
    assert statuses(verifier([("72", "72.0"), ("9", TOWER, "math_verify"), ("72", "71"), ("72", "?")])) == [
        "right",
        "timeout",
        "wrong",
        "unparseable",
    ]
    verifier.close()


@pytest.mark.slow
def test_a_process_killed_from_outside_is_a_crash_and_the_next_answer_is_judged(verifier):
    verifier([("1", "1")])
    process = verifier.workers[0].process
    killer = threading.Timer(0.5, os.kill, (process.pid, signal.SIGKILL))
    killer.start()
    assert statuses(verifier([("9", TOWER, "math_verify")])) == ["crash"]
    assert statuses(verifier([("9", "9")])) == ["right"]
    assert verifier.workers[0].process.pid != process.pid


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_what_asks_the_trainer_to_stop_ends_no_judge(verifier, number):
    verifier([("1", "1")])
    process = verifier.workers[0].process
    os.kill(process.pid, number)
    assert statuses(verifier([("9", "9")])) == ["right"]
    assert verifier.workers[0].process is process and process.poll() is None


@pytest.mark.slow
def test_a_process_killed_while_idle_costs_no_answer(verifier):
    verifier([("1", "1")])
    process = verifier.workers[0].process
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert statuses(verifier([("9", "9")])) == ["right"]


def test_a_call_that_raises_is_a_crash(verifier):
    assert statuses(verifier([("only one argument",), ("9", "9")])) == ["crash", "right"]


def test_a_call_that_ends_its_process_is_a_crash_and_spares_the_others():
    verifier = Verifier("os:_exit", workers=1, timeout=30.0, memory=4.0)
    assert statuses(verifier([(3,), (4,)])) == ["crash", "crash"]
    verifier.close()


def test_memory_is_limited():
    verifier = Verifier("builtins:bytearray", workers=1, timeout=30.0, memory=0.5)
    assert statuses(verifier([(2**30,)])) == ["crash"]
    verifier.close()


def test_verdicts_come_in_order_from_several_processes_off_the_main_thread():
    verifier = Verifier(MATHS, workers=2, timeout=30.0, memory=4.0)
    received = []
    calls = [("7", str(i % 10)) for i in range(40)]
    thread = threading.Thread(target=lambda: received.extend(verifier(calls)))
    thread.start()
    thread.join()
    assert [verdict.correct for verdict in received] == [i % 10 == 7 for i in range(40)]
    verifier.close()


@pytest.mark.slow
def test_processes_end_with_close_and_come_back_when_needed(verifier):
    verifier([("1", "1")])
    process = verifier.workers[0].process
    verifier.close()
    assert process.poll() is not None
    assert statuses(verifier([("1", "1")])) == ["right"]


@pytest.mark.slow
def test_a_copy_has_processes_of_its_own(verifier):
    verifier([("1", "1")])
    copy = pickle.loads(pickle.dumps(verifier))
    assert statuses(copy([("1", "1"), ("1", "2")])) == ["right", "wrong"]
    copy.close()
    assert verifier.workers[0].process.poll() is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="waits for a process that is no child, which needs a pidfd")
@pytest.mark.parametrize("answer", ["1", TOWER])
def test_no_process_outlives_the_trainer_idle_or_hanging(answer):
    trainer = """if True:
        import sys, threading
        from isentropic.task.verifier import Verifier
        verifier = Verifier(sys.argv[1], workers=1, timeout=2.0, memory=4.0)
        verifier([("1", "1")])
        threading.Timer(0.5, print, [verifier.workers[0].process.pid], {"flush": True}).start()
        verifier([("9", sys.argv[2], "math_verify")])
        threading.Event().wait()
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", trainer, MATHS, answer]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        watched = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
    ended, _, _ = select.select([watched], [], [], 30.0)
    os.close(watched)
    assert ended


def test_no_calls_start_no_process(verifier):
    assert verifier([]) == []
    assert verifier.workers[0].process is None


def test_a_judge_that_does_not_exist_is_reported():
    verifier = Verifier("isentropic.task.equality:nobody", workers=1, timeout=30.0, memory=4.0)
    with pytest.raises(RuntimeError, match="a verifier could not start"):
        verifier([("1", "1")])


@pytest.mark.parametrize("name", ["workers", "timeout", "memory"])
def test_limits_that_allow_nothing_are_refused(name):
    with pytest.raises(ValueError, match=f"task.{name}=0 lets no answer be judged"):
        Verifier(MATHS, **({"workers": 1, "timeout": 1.0, "memory": 1.0} | {name: 0}))
