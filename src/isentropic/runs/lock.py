"""One run in one folder: a lock while it lasts, and nothing of an earlier run is written over."""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from isentropic.runs.files import LAST_CHECKPOINT
from isentropic.runs.status import alive, read_status

try:
    import fcntl
except ImportError:  # Windows, where the status alone tells
    fcntl = None


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Raises ValueError where another process's run goes on in the folder.

    The lock is on the folder itself, so that no file is left of it; where a file system has none, and on other hosts,
    status.json tells.
    """
    refuse_running(folder)
    handle = None
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
    try:
        if fcntl and handle is not None:
            take(folder, handle)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def refuse_running(folder: Path) -> None:
    """Raises ValueError where another process's run goes on in the folder, by its status."""
    status = read_status(folder)
    if status and status.pid != os.getpid() and alive(folder, status):
        raise ValueError(f"{folder} is the folder of a run that goes on in process {status.pid} on {status.host}")


def take(folder: Path, handle: int) -> None:
    assert fcntl
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise ValueError(f"{folder} is the folder of a run that goes on in another process") from error


def refuse_overwriting(folder: Path, ckpt_path: str | None, learns: bool) -> None:
    """Raises ValueError where a run that does not go on with the one in the folder would take its place.

    `ckpt_path` is what it goes on with, `last` or a path; a command that does not learn has a folder of its own.
    """
    last = folder / LAST_CHECKPOINT
    if not os.path.lexists(last):
        return
    if learns and ckpt_path and (ckpt_path == "last" or Path(ckpt_path).resolve().is_relative_to(folder.resolve())):
        return
    goes_on = "; ckpt_path=last goes on with it, and without hydra.run.dir a run has a folder of its own"
    raise ValueError(
        f"{folder} holds an earlier run, whose checkpoint would be lost{goes_on if learns else '; choose another'}"
    )
