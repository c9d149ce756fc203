import json
import os
import signal
import threading

import pytest
import torch
from lightning import Callback

from isentropic.callbacks import watchdog
from isentropic.callbacks.watchdog import Watchdog
from isentropic.phases import SECONDS, doing

SOON = {"factor": 2.0, "least": 0.2}


def last(folder):
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)


def wait_for_nobody():
    """On a pipe into which nothing is written."""
    with doing("a deed of a test"):
        os.read(os.pipe()[0], 1)


@pytest.mark.parametrize("wrong", [{"factor": 1.0}, {"least": 0.0}, {"timeout": -1.0}])
def test_limits_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match=r"^watchdog\."):
        Watchdog(**({"factor": 10.0, "least": 60.0, "timeout": None} | wrong))


def test_what_takes_far_longer_than_before_is_told_once_with_where_it_waits_and_the_run_goes_on(run, tiny, monkeypatch):
    """It waits on a pipe, into which a byte is written when the sentence has come."""
    source, sink = os.pipe()
    told, come = [], threading.Event()

    class Heard(Watchdog):
        def say(self, text):
            told.append(text)
            come.set()

    def during(module):
        with doing("a part of a test"):
            if module.rollouts == 3 and not told:  # at the first of its two optimizer steps
                the_function_that_waits(source)

    def answer():
        come.wait()
        os.write(sink, b"x")

    monkeypatch.delitem(SECONDS, "a part of a test", raising=False)
    helper = threading.Thread(target=answer)
    helper.start()
    module = run([Heard(**SOON, timeout=None)], steps=5, module=tiny(during=during))
    helper.join()
    about = [text for text in told if "a part of a test" in text]
    assert module.rollouts == 5 and len(about) == 1
    sentence, *stack = about[0].splitlines()
    assert sentence.startswith("warning: in rollout 4, a part of a test takes 0.") and "in the median" in sentence
    assert "the_function_that_waits" in "".join(stack) and "os.read(source, 1)" in stack[-1]


def the_function_that_waits(source):
    os.read(source, 1)


def test_a_phase_that_has_never_ended_is_given_more_time():
    dog = Watchdog(factor=10.0, least=60.0, timeout=None)
    SECONDS.pop("new to a test", None)
    assert dog.limit("new to a test") == 600
    SECONDS["new to a test"].extend([1.0, 2.0, 1.0])
    assert dog.limit("new to a test") == 60
    SECONDS["new to a test"].extend([30.0] * 9)
    assert dog.limit("new to a test") == 300


def test_a_timeout_ends_the_run_with_its_last_checkpoint(ending, tmp_path):
    dog = Watchdog(factor=10.0, least=60.0, timeout=0.3)
    code, said = ending(wait_for_nobody, further=[dog])
    assert code == 1 and "in wait_for_nobody" in said
    assert "OverdueError: callbacks.watchdog.timeout: a deed of a test of rollout 5 takes more than 0.3 s" in said
    assert last(tmp_path)["rollouts"] == 3


def test_between_rollouts_it_saves_the_last_one_first(ending, tmp_path):
    class Stuck(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            if batch_idx == 4:
                wait_for_nobody()

    code, said = ending(int, further=[Watchdog(factor=10.0, least=60.0, timeout=0.3), Stuck()])
    assert code == 1 and "OverdueError" in said
    assert last(tmp_path)["rollouts"] == 4


def test_what_cannot_be_interrupted_is_ended_and_the_status_says_why(ending, tmp_path, monkeypatch):
    monkeypatch.setattr(watchdog, "GRACE", 0.3)

    def deaf():
        (tmp_path / "status.json").write_text('{"status": "running"}')
        signal.pthread_sigmask(signal.SIG_BLOCK, [watchdog.WAKE])  # as inside of a collective
        wait_for_nobody()

    code, said = ending(deaf, further=[Watchdog(factor=10.0, least=60.0, timeout=0.3)])
    assert code == 1 and said.splitlines()[-1].startswith("error: callbacks.watchdog.timeout: a deed of a test")
    status = json.loads((tmp_path / "status.json").read_text())
    assert status["status"] == "failed" and status["error"].startswith("callbacks.watchdog.timeout")
    assert last(tmp_path)["rollouts"] == 3


REWARD = """
import os
CALLS = []

def waits(completions, **columns):
    CALLS.append(1)
    if len(CALLS) == 3 and os.environ.get("LOCAL_RANK", "0") == os.environ["STUCK"]:
        open(os.path.join(os.path.dirname(__file__), "pipe")).read()
    return [0.0 for _ in completions]
"""


@pytest.mark.slow
def test_a_rank_that_waits_says_where_and_so_does_the_one_that_waits_for_it(start, warm, tmp_path, monkeypatch):
    """The second rank's reward reads from a pipe, which is opened when all that was to be heard has been."""
    (tmp_path / "rewards.py").write_text(REWARD)
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("STUCK", "1")
    process = start(
        "train", "sampler=transformers", f"hydra.run.dir={tmp_path}/run", "rollout.steps=4", "evaluation=[]",
        "reward=[correct,trl]", f"reward.trl.functions=['{tmp_path}/rewards.py:waits']", "reward.trl.timeout=null",
        "callbacks.watchdog.least=0.5", "callbacks.watchdog.factor=4", "trainer=ddp_cpu",
        interpreter=warm.interpreter,
    )  # fmt: skip
    said = []
    wanted = ["rollout/rewards takes", "in waits", "rank 0 of 2: ", "in largest"]
    for line in process.stderr:
        said.append(line)
        if all(any(part in one for one in said) for part in wanted):
            break
    (tmp_path / "pipe").write_text("")
    _, rest = process.communicate(timeout=300)
    assert process.returncode == 0, "".join(said) + rest
    assert any("warning: rank 1 of 2: in rollout 3, rollout/rewards" in line for line in said), said
