import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from fixtures.processes import everyone, is_child, stat_of

from isentropic.task import Verdict
from isentropic.task.judge_pool import CRASH, JudgePool, verdict
from isentropic.tools import Outcome
from isentropic.tools.cage import Cage
from isentropic.tools.pool import SPARE_AFTER

TOWER = r"9^{9^{9^{9}}}"
MATHS = "isentropic.task.equality:judge"


@pytest.fixture(scope="module")
def shared():
    made = JudgePool(MATHS, workers=1, timeout=30.0, memory=4.0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def hasty():
    made = JudgePool(MATHS, workers=1, timeout=0.7, memory=4.0)
    yield made
    made.close()


@pytest.fixture
def judges(hasty):
    """With a server that lives, whatever a test before has done to it."""
    hasty([("1", "1")])
    assert server(hasty).poll() is None
    return hasty


def statuses(verdicts):
    return [verdict.status for verdict in verdicts]


def server(judges):
    return judges.pool.workers[0].process


def test_an_answer_that_hangs_costs_its_limit_and_no_process(judges):
    before = server(judges)
    assert statuses(judges([("72", "72.0"), ("9", TOWER, "math_verify"), ("72", "71"), ("72", "?")])) == [
        "right",
        "timeout",
        "wrong",
        "unparseable",
    ]
    assert server(judges) is before and before.poll() is None


def child_of(process):
    """The one that judges now: each process that is forked has its parent's number in its status."""
    parents = {process.pid}
    for _ in range(2):  # a server in a namespace is a child itself
        parents |= {pid for pid in everyone() if any(is_child(pid, parent) for parent in parents)}
    return max(parents)


def worked(process):
    """Hundredths of a second of the processor. One that has hardly had any may not have read what it is to judge."""
    return sum(map(int, stat_of(process)[11:13]))


def hang_and(judges, do):
    """Judges an answer that hangs; once it runs, something is done to those who judge it."""
    received = []
    thread = threading.Thread(target=lambda: received.extend(judges([("9", TOWER, "math_verify"), ("9", "9")])))
    family = {server(judges).pid, child_of(server(judges))}
    thread.start()
    while (found := child_of(server(judges))) in family or worked(found) < 10:
        time.sleep(0.01)
    do(found)
    thread.join()
    return statuses(received)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_answer_whose_process_is_killed_from_outside_is_judged_once_more(judges):
    before = server(judges)
    assert hang_and(judges, lambda child: os.kill(child, signal.SIGKILL)) == ["timeout", "right"]
    assert server(judges) is before


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_where_the_server_is_killed_another_one_judges(judges):
    before = server(judges)
    assert hang_and(judges, lambda _: before.kill()) == ["timeout", "right"]
    assert server(judges) is not before


@pytest.mark.slow
def test_a_spare_server_stands_ready_after_a_few_batches():
    with closing(JudgePool(MATHS, workers=1, timeout=30.0, memory=4.0)) as judges:
        for _ in range(SPARE_AFTER):
            assert judges.pool.starting is None
            judges([("9", "9")])
        judges.pool.starting.join()
        spare = judges.pool.spare.process
        server(judges).kill()
        server(judges).wait()
        assert statuses(judges([("9", "9")])) == ["right"]
        judges.pool.starting.join()
        os.kill(server(judges).pid, signal.SIGKILL)
        server(judges).wait()
        assert statuses(judges([("9", "9"), ("9", "8")])) == ["right", "wrong"]
        assert spare.poll() is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_what_asks_the_trainer_to_stop_ends_no_judge(shared, number):
    shared([("1", "1")])
    process = server(shared)
    os.kill(process.pid, number)
    assert statuses(shared([("9", "9")])) == ["right"]
    assert server(shared) is process and process.poll() is None


def test_a_call_that_raises_is_a_crash(shared):
    assert statuses(shared([("only one argument",), ("9", "9")])) == ["crash", "right"]


def test_a_call_that_ends_its_process_is_a_crash_and_spares_the_others():
    judges = JudgePool("os:_exit", workers=1, timeout=30.0, memory=4.0)
    assert statuses(judges([(3,), (0,)])) == ["crash", "crash"]
    judges.close()


def test_memory_is_limited():
    judges = JudgePool("builtins:bytearray", workers=1, timeout=30.0, memory=0.5)
    assert statuses(judges([(2**30,)])) == ["crash"]
    judges.close()


def test_verdicts_come_in_order_from_several_processes_off_the_main_thread():
    judges = JudgePool(MATHS, workers=2, timeout=30.0, memory=4.0)
    received = []
    calls = [("7", str(i % 10)) for i in range(40)]
    thread = threading.Thread(target=lambda: received.extend(judges(calls)))
    thread.start()
    thread.join()
    assert [verdict.correct for verdict in received] == [i % 10 == 7 for i in range(40)]
    judges.close()


def test_a_judge_may_load_and_warm_what_it_needs():
    judges = JudgePool("operator:add", 1, 30.0, 4.0, warm=[("isentropic.nowhere:missing", ())])
    with pytest.raises(RuntimeError, match="a judge could not start"):
        judges([("1", "1")])
    judges.close()


@pytest.mark.slow
def test_processes_end_with_close_and_come_back_when_needed(judges):
    process = server(judges)
    judges.close()
    assert process.poll() is not None
    assert statuses(judges([("1", "1")])) == ["right"]


@pytest.mark.slow
def test_a_copy_has_processes_of_its_own(judges):
    copy = pickle.loads(pickle.dumps(judges))
    assert statuses(copy([("1", "1"), ("1", "2")])) == ["right", "wrong"]
    copy.close()
    assert server(judges).poll() is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="waits for a process that is no child, which needs a pidfd")
@pytest.mark.parametrize("answer", ["1", TOWER])
def test_no_process_outlives_the_trainer_idle_or_hanging(answer):
    trainer = """if True:
        import sys, threading
        from isentropic.task.judge_pool import JudgePool
        judges = JudgePool(sys.argv[1], workers=1, timeout=1000.0, memory=4.0)
        judges([("1", "1")])
        threading.Timer(0.5, print, [judges.pool.workers[0].process.pid], {"flush": True}).start()
        judges([("9", sys.argv[2], "math_verify")])
        threading.Event().wait()
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", trainer, MATHS, answer]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        watched = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
    ended, _, _ = select.select([watched], [], [], 300.0)
    os.close(watched)
    assert ended


def test_no_calls_start_no_process():
    judges = JudgePool(MATHS, workers=1, timeout=30.0, memory=4.0)
    assert judges([]) == []
    assert server(judges) is None
    judges.close()


def test_a_judge_that_does_not_exist_is_reported():
    judges = JudgePool("isentropic.task.equality:nobody", workers=1, timeout=30.0, memory=4.0)
    with pytest.raises(RuntimeError, match="a judge could not start"):
        judges([("1", "1")])


@pytest.mark.parametrize("name", ["workers", "timeout", "memory"])
def test_limits_that_allow_nothing_are_refused(name):
    with pytest.raises(ValueError, match=f"task.{name}=0 lets no answer be judged"):
        JudgePool(MATHS, **({"workers": 1, "timeout": 1.0, "memory": 1.0} | {name: 0}))


def test_a_cage_says_what_it_has(shared):
    assert shared.notes[0].startswith("cage: ")


def test_a_cage_that_is_wanted_and_cannot_be_had_is_refused_or_told():
    with pytest.raises(ValueError, match="asks for 'moat'; it is a list of landlock, seccomp, namespaces"):
        Cage(["moat"])


@pytest.mark.parametrize(
    "said",
    [
        b"", b"[", b"null", b"[1]", b'[1, true, "splendid"]', b'["1", true, "right"]', b'[1, 1, "right"]',
        b'[NaN, true, "right"]', b'[1e999, true, "right"]', b'[true, true, "right"]', b"[" * 4000,
        b'{"a": 1, "b": 2, "c": 3}', b"\xff", b"[1" + b"0" * 4000 + b', true, "right"]', b'[1, true, ["right"]]',
    ],
)  # fmt: skip
def test_what_is_no_verdict_is_a_crash(said):
    assert verdict(Outcome("ok", said)) == CRASH


def test_what_is_a_verdict_is_read_as_one():
    assert verdict(Outcome("ok", b'[0.5, false, "wrong"]')) == Verdict(0.5, False, "wrong")
    assert verdict(Outcome("error", b'[1, true, "right"]')) == CRASH
