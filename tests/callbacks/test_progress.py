import io
import re
import time

import pytest
from lightning import Callback
from rich.console import Console

from isentropic.callbacks.progress import Progress, clock, planned, time_left, unbroken
from isentropic.phases import WATCHERS, doing

LOGGED = {"control/target": 0.15, "throughput/tokens_per_second": 5213.0}


def test_off_a_terminal_it_is_plain_lines_that_say_it_all(run, tiny, capfd):
    run([Progress(seconds=0)], steps=4, module=tiny(lambda step: LOGGED), limit_val_batches=1, val_check_interval=2)
    first, *lines = capfd.readouterr().out.splitlines()
    assert re.fullmatch(r"starting \| \d+:\d\d elapsed", first) and "\x1b" not in "".join(lines)
    phases = [line.split(" | ")[1] for line in lines]
    each, end = ["training", "sampling"], ["training", "evaluating", "evaluating", "finishing", "done"]
    assert phases == ["sampling", *each, *each, "evaluating", "sampling", *each, *end]
    assert re.fullmatch(
        r"step 4/4 \| done \| reward 0\.250 \| entropy 0\.075 \(target 0\.150\) \| avg@8 0\.500 \| 5,213 tokens/s"
        r" \| \d+:\d\d elapsed",
        lines[-1],
    )


def test_what_is_waited_for_once_is_named_while_it_lasts(run, tiny, capfd):
    class Engine(Callback):
        def on_fit_start(self, trainer, pl_module):
            with doing("the engine's start", once=True), doing("something within"):
                pass

    def update(module):
        with doing("update" if module.rollouts else "the first update, which compiles", once=not module.rollouts):
            pass

    progress = Progress(seconds=0)
    run([Engine(), progress], steps=2, module=tiny(during=update))
    told = [re.sub(r" \| \d.*", "", line) for line in capfd.readouterr().out.splitlines()]
    assert told[:2] == ["starting", "starting: the engine's start"]
    named = [line.split(" | ")[1] for line in told[2:]]
    assert named.count("training: the first update, which compiles") == 1 and "training: update" not in named
    assert named[-1] == "done" and progress.begins not in WATCHERS
    with doing("the end", once=True):  # nothing is said of it
        pass
    assert capfd.readouterr().out == ""


def test_lines_are_not_more_frequent_than_asked(run, capfd):
    run([Progress(seconds=1000)], steps=6)
    lines = [line.split(" | ")[:2] for line in capfd.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["starting", "step 6/6"] and lines[1][1] == "done"


def test_on_a_terminal_it_is_one_panel_that_leaves_room_for_what_others_print(run, tiny):
    progress, screen = Progress(seconds=0), io.StringIO()
    progress.console = Console(file=screen, force_terminal=True, width=100, _environ={"TERM": "xterm"})
    run([progress], steps=3, module=tiny(lambda step: LOGGED, during=lambda module: print("a word in between")))
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    assert "isentropic" in shown and "step 3/3" in shown and "entropy 0.100 (target 0.150)" in shown
    assert shown.count("a word in between") == 6 and progress.live is None


def test_the_panel_goes_when_the_run_fails(run, tiny):
    def fail(module):
        raise RuntimeError("broken")

    progress = Progress(seconds=0)
    progress.console = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "xterm"})
    with pytest.raises(RuntimeError, match="broken"):
        run([progress], module=tiny(during=fail))
    assert progress.live is None and progress.phase == "failed"


def test_at_the_edge_there_is_room_for_what_the_terminal_echoes():
    progress, screen = Progress(seconds=0), io.StringIO()
    progress.console = Console(file=screen, width=80)
    progress.console.print(progress.panel())
    assert {len(line) for line in screen.getvalue().splitlines()} == {80 - len("^C^C")}


def test_time_left_counts_steps_and_evaluations_apart():
    assert time_left(10, 2, [60.0, 2.0, 4.0], [30.0]) == 10 * 3 + 2 * 30
    assert time_left(10, 0, [60.0], []) == 600
    assert time_left(10, 1, [2.0], []) is None and time_left(10, 0, [], [30.0]) is None
    assert time_left(0, 0, [], []) == 0


def test_an_evaluation_does_not_slow_the_pace_of_steps(run):
    progress = Progress(seconds=1000)
    began = time.monotonic()
    run([progress], steps=3, limit_val_batches=1, val_check_interval=1, before=True)
    total = sum(progress.step_seconds) + sum(progress.evaluation_seconds)
    assert len(progress.step_seconds) == 3 and len(progress.evaluation_seconds) == 4
    assert min(progress.step_seconds) > 0 and total < time.monotonic() - began


def test_the_evaluation_after_the_last_step_is_still_to_come():
    assert [planned(step, 3) for step in (0, 3, 7)] == [0, 1, 3] and planned(7, 0) == 0
    progress = Progress(seconds=0)
    progress.step = progress.steps = 7
    progress.every, progress.evaluated = 3, planned(6, 3)
    progress.evaluation_seconds.append(90)
    assert "about 1:30 left" in progress.times()


def test_lines_end_between_facts():
    assert unbroken(["avg@8 0.148", "pass@16 0.875"], 24) == ["avg@8 0.148", "pass@16 0.875"]
    assert unbroken(["avg@8 0.148", "pass@16 0.875"], 27) == ["avg@8 0.148   pass@16 0.875"]


def test_clock_reads_as_people_write_it():
    assert [clock(s) for s in (4.4, 65, 3600)] == ["0:04", "1:05", "1:00:00"]


def test_negative_seconds_are_refused():
    with pytest.raises(ValueError, match="must not be negative"):
        Progress(-1)
