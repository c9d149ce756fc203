"""What submitit runs on each rank of a job: the job's own command, in a process that a requeue can wait for."""

import os
import signal
import subprocess
from dataclasses import dataclass, field
from typing import Any

from isentropic.launching import Job
from isentropic.launching.cluster import WARNED, resumed


@dataclass
class Rank:
    job: Job
    child: "subprocess.Popen[bytes] | None" = field(init=False, default=None)
    cancelled: bool = field(init=False, default=False)

    def __call__(self) -> int:
        """Raises SystemExit where the run fails, with its code. Of a job whose time is up only rank 0 asks for more."""
        first, submitits = os.environ["SLURM_PROCID"] == "0", requeue_signal()
        for number in {signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM} - {submitits}:
            signal.signal(number, self.hand_on)
        if first:  # the others' output is in submitit's folder: two hosts that append to one file overwrite each other
            self.job.folder.mkdir(parents=True, exist_ok=True)
            with self.job.log.open("ab") as log:
                self.child = subprocess.Popen(
                    resumed(self.job), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
                )
        else:
            self.child = subprocess.Popen(resumed(self.job), stdin=subprocess.DEVNULL)
        code = self.end()
        if code in WARNED and not self.cancelled:
            if first:
                signal.raise_signal(submitits)
            return code
        if code:
            raise SystemExit(code)
        return code

    def hand_on(self, number: int, frame: Any) -> None:
        """Some clusters signal all processes, others tasks alone; and a second SIGTERM is an order to leave at once."""
        self.cancelled = self.cancelled or number == signal.SIGTERM
        self.warn()

    def checkpoint(self) -> Any:
        """What to run once more, after this has saved. Called by submitit, in its handler, when time is nearly up."""
        from submitit.helpers import DelayedSubmission

        self.warn()
        code = self.end()
        if code in WARNED and not self.cancelled:
            return DelayedSubmission(Rank(self.job))
        raise SystemExit(code)

    def warn(self) -> None:
        if self.child is not None:
            os.kill(self.child.pid, signal.SIGUSR1)  # it is waited for below, so the number is still its own

    def end(self) -> int:
        """Waits without a lock, as a handler may do so above another call of this; code as shells count it."""
        if self.child is None:
            return WARNED[0]
        ending = os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOWAIT)
        assert ending is not None
        return ending.si_status + (0 if ending.si_code == os.CLD_EXITED else 128)


def requeue_signal() -> signal.Signals:
    return signal.Signals[f"SIG{os.environ.get('SUBMITIT_PREEMPT_SIGNAL', 'USR2')}"]
