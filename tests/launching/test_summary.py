import os
from dataclasses import replace

import pytest

from isentropic.launching import Outcome
from isentropic.launching.summary import OUTCOMES, conclude, outcome_of, table
from isentropic.runs.status import Status, write_status


def test_the_table_counts_and_says_of_what_did_not_go_well_why_and_where(job):
    failed = job("seed=3")
    failed.folder.mkdir(parents=True)
    failed.log.touch()
    lines = table(
        [
            Outcome(job("seed=1"), "done", "", 3723.0, 0.4126),
            Outcome(job("seed=2"), "unfinished", "not started"),
            Outcome(failed, "failed", "ValueError: no"),
        ]
    ).split("\n")
    assert lines[1] == "1 done, 1 unfinished, 1 failed"
    assert [line.split() for line in lines[2:]] == [
        ["done", "seed=1", "1:02:03", "0.4126"],
        ["unfinished", "seed=2"],
        ["not", "started"],
        ["failed", "seed=3"],
        ["ValueError:", "no"],
        ["log:", str(failed.log)],
    ]


def test_names_of_several_lengths_leave_their_facts_below_each_other(job):
    made = [Outcome(job(name), "done", "", seconds, 0.25) for name, seconds in (("a=1", 65.0), ("a=1,seed=10", 4000.0))]
    first, second = table(made).split("\n")[2:]
    assert first.index("0.25") == second.index("0.25") and first.split() == ["done", "a=1", "1:05", "0.25"]


def test_a_long_table_lists_all_that_failed_and_counts_the_rest(job):
    text = table([Outcome(job(f"seed={i}"), "failed" if i > 50 else "skipped", "no") for i in range(90)])
    assert "51 skipped, 39 failed" in text and "31 more" in text
    assert all(f"seed={i}\n" in text for i in range(51, 90))


@pytest.mark.parametrize("ending, code", [("failed", 1), ("unfinished", 0), ("done", 0)])
def test_a_sweep_with_failures_ends_with_one(job, capsys, ending, code):
    OUTCOMES.append(Outcome(job("seed=1"), ending))
    if code:
        with pytest.raises(SystemExit, match="1"):
            conclude()
    else:
        conclude()
    assert f"1 {ending}" in capsys.readouterr().out
    conclude()
    assert capsys.readouterr().out == "", "told twice"


STATUS = Status("failed", "ValueError: no", "", 2.0, "here", 7, [], {}, None)


@pytest.mark.parametrize(
    "status, code, pid, ending, reason",
    [
        (replace(STATUS, status="done", result=0.5), 0, 7, "done", ""),
        (STATUS, 1, 7, "failed", "ValueError: no"),
        (STATUS, 1, 8, "failed", "the last line"),
        (replace(STATUS, status="stopped", error="stopped by SIGTERM"), 143, None, "unfinished", "stopped by SIGTERM"),
        (replace(STATUS, status="running", error=None), -9, 7, "failed", "killed by SIGKILL"),
        (None, 137, None, "failed", "killed by SIGKILL"),
        (None, 2, None, "failed", "the last line"),
    ],
)
def test_how_a_job_ended_is_told_by_its_status_its_exit_code_or_its_last_words(job, status, code, pid, ending, reason):
    one = job("seed=1")
    one.folder.mkdir(parents=True)
    one.log.write_text("first" + os.linesep + "error: the last line\n\n")
    if status:
        write_status(one.folder, status)
    outcome = outcome_of(one, code, pid)
    assert outcome.ending == ending and outcome.reason.startswith(reason)
    assert outcome.result == (status.result if status else None)


def test_a_job_without_a_word_is_told_by_its_exit_code(job):
    assert outcome_of(job("seed=1"), 3).reason == "exit code 3"
