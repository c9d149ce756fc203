"""One line as each job starts and ends, with how many are left and about how long they take."""

import time

from isentropic.launching import Job, Outcome


class Progress:
    def __init__(self, jobs: int) -> None:
        self.jobs, self.start_count, self.end_count = jobs, 0, 0
        self.start_times: dict[str, float] = {}
        self.durations: list[float] = []

    def started(self, job: Job, gpus: list[str]) -> None:
        self.start_count += 1
        self.start_times[job.name] = time.monotonic()
        where = f" on GPU {' '.join(gpus)}" if gpus else ""
        print(f"start {self.start_count}/{self.jobs}  {job.name}{where}", flush=True)

    def ended(self, outcome: Outcome, at_once: int) -> Outcome:
        self.end_count += 1
        name, now, left = outcome.job.name, time.monotonic(), self.jobs - self.end_count
        took = now - self.start_times.get(name, now)
        if outcome.ending == "done":
            self.durations.append(took)
        known = self.durations and left
        about = f", about {clock(left / at_once * sum(self.durations) / len(self.durations))}" if known else ""
        why = f": {outcome.reason}" if outcome.reason else ""
        print(
            f"{outcome.ending} {self.end_count}/{self.jobs}  {name} in {clock(took)}{why}; {left} left{about}",
            flush=True,
        )
        return outcome


def clock(seconds: float) -> str:
    """H:MM:SS or M:SS"""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
