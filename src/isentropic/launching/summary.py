"""The table at a sweep's end: one line per job that needs a look; and the exit code."""

import signal
import sys
from collections import Counter

from isentropic.launching import Ending, Job, Outcome
from isentropic.launching.progress import clock
from isentropic.runs.status import read_status

OUTCOMES: list[Outcome] = []  # of this process's sweep, over all its batches
MAX_LISTED = 20  # jobs listed for each ending that is fine


def conclude() -> None:
    """Prints the table of the sweep that has ended, if there was one. Raises SystemExit(1) if a job failed."""
    if not OUTCOMES:
        return
    job = OUTCOMES[0].job
    print(f"{table(OUTCOMES)}\nsweep folder: {str(job.folder).removesuffix(job.name).rstrip('/')}", flush=True)
    failed = any(outcome.ending == "failed" for outcome in OUTCOMES)
    OUTCOMES.clear()
    if failed and sys.exception() is None:
        raise SystemExit(1)


def table(outcomes: list[Outcome]) -> str:
    count = Counter(outcome.ending for outcome in outcomes)
    endings: tuple[Ending, ...] = ("done", "skipped", "unfinished", "failed")
    lines = ["", ", ".join(f"{count[ending]} {ending}" for ending in endings if count[ending])]
    for ending in endings:
        rows = [outcome for outcome in outcomes if outcome.ending == ending]
        shown = rows if ending in ("failed", "unfinished") else rows[:MAX_LISTED]
        width = max((len(outcome.job.name) for outcome in shown), default=0)
        lines += [line for outcome in shown for line in _lines(outcome, width)]
        lines += [f"  {ending:<10} {len(rows) - len(shown)} more"] if len(rows) > len(shown) else []
    return "\n".join(lines)


def _lines(outcome: Outcome, width: int) -> list[str]:
    facts = [outcome.job.name]
    if outcome.seconds is not None:
        facts = [f"{outcome.job.name:<{width}}", f"{clock(outcome.seconds):>7}"]
    if outcome.result is not None:
        facts.append(f"{outcome.result:.4g}")
    first = f"  {outcome.ending:<10} {'  '.join(facts)}"
    further = [f"  {'':<10} {outcome.reason}"] if outcome.reason and outcome.ending in ("failed", "unfinished") else []
    if outcome.ending == "failed" and outcome.job.log.exists():
        further.append(f"  {'':<10} log: {outcome.job.log}")
    return [first, *further]


def outcome_of(job: Job, code: int, pid: int | None = None) -> Outcome:
    """How a job's process ended, by its exit code and what it left behind; `pid` tells its status from an older one."""
    status = read_status(job.folder)
    if status and pid is not None and status.pid != pid:
        status = None
    seconds = status.seconds if status else None
    if code == 0:
        return Outcome(job, "done", "", seconds, status.result if status else None)
    if status and status.status == "stopped":
        return Outcome(job, "unfinished", f"{status.error}; the same command goes on with it", seconds)
    if status and status.status == "failed" and status.error:
        return Outcome(job, "failed", status.error, seconds)
    return Outcome(job, "failed", killed_by(code) or last_line(job) or f"exit code {code}", seconds)


def killed_by(code: int) -> str:
    """A process that a signal ended has no last words; Python counts these down, shells up from 128."""
    number = -code if code < 0 else code - 128
    if number not in {*signal.Signals}:
        return ""
    memory = ", perhaps for want of memory" if number == signal.SIGKILL else ""
    return f"killed by {signal.Signals(number).name}{memory}"


def last_line(job: Job) -> str:
    """What was said before there was a status: a sentence on what is wrong with the command line."""
    if not job.log.exists():
        return ""
    with job.log.open("rb") as file:
        file.seek(max(0, job.log.stat().st_size - 4096))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else ""
