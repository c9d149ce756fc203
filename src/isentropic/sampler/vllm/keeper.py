"""A process between trainer and server, which ends the server with the trainer and takes away all that both leave.

    python -I keeper.py FOLDER TRAINER COMMAND...   # only the standard library: it starts at once, and is small

FOLDER is the run's own: the server's socket, its temporary files and the weights that are sent lie in it, and nobody
else may enter. Whatever ends the trainer, the keeper ends the server and its engine, and removes the folder and what
they held of /dev/shm. Where it is killed itself, the next server's start does so, by what stands in the folder.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

OWNER, SHARED = "owner.json", "shared_memory.txt"  # in the folder: whose it is, and what of /dev/shm its processes held
PREFIX = "isentropic-server-"
WEIGHTS = "isentropic-weights-"  # what the folder is called that somebody else's server reads them from
LONGEST = 107 - len("/00000000-0000-0000-0000-000000000000")  # of a folder in which sockets have such names
MEMORY = Path("/dev/shm")
PATIENCE = 10.0  # seconds that a server has to end by itself
WITNESS = 1.5  # and what it leaves: multiprocessing's tracker, which cleans up after it
LOOK = 2.0  # seconds between looks at what is held


def begun(pid: int) -> str | None:
    """When a process began, in ticks of the kernel: a pid alone may be given to another. None where it has ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in "ZX" else words[19]


def session(of: int = 0) -> list[int]:
    """All other processes of this one's session, or of that whose first process this is."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            if pid != os.getpid() and os.getsid(pid) == (of or os.getsid(0)) and begun(pid):
                found.append(pid)
    return found


def held(pids: list[int]) -> set[str]:
    """Names in /dev/shm that these processes have mapped, by their inodes: a semaphore was made under another name."""
    there: dict[str, str] = {}
    with suppress(OSError):
        there = {str(entry.inode()): entry.name for entry in os.scandir(MEMORY)}
    names: set[str] = set()
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
                if f"{MEMORY}/" in line and (name := there.get(line.split()[4])):
                    names.add(name)
    return names


def note(folder: Path, names: set[str]) -> set[str]:
    """Adds what is held now to `names`, and writes them down for whoever must clean up after a kill."""
    more = names | held(session())
    if more != names:
        with suppress(OSError):
            (folder / SHARED).write_text("".join(f"{name}\n" for name in sorted(more)))
    return more


def clear(folder: Path, names: set[str]) -> None:
    """Of `names`, what is ours and nobody holds any more."""
    for name in names - held([int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]):
        with suppress(OSError):
            if (MEMORY / name).stat().st_uid == os.geteuid():
                (MEMORY / name).unlink()
    shutil.rmtree(folder, ignore_errors=True)


def noted(folder: Path) -> set[str]:
    """What `note` has written down."""
    names = (folder / SHARED).read_text().split() if (folder / SHARED).exists() else []
    return {Path(name).name for name in names}


def stand_in(folder: Path, keeper: int) -> None:
    """Clears what a keeper would have that was killed itself, once all of its session have ended."""
    end = time.monotonic() + PATIENCE
    while session(keeper) and time.monotonic() < end:
        time.sleep(0.05)
    if folder.exists():
        clear(folder, noted(folder))


def sweep(place: Path) -> None:
    """Takes away the folders there of servers that were killed with their keepers, of this user alone, and of trainers
    that sent weights to somebody else's."""
    for folder in [*place.glob(f"{PREFIX}*"), *place.glob(f"{WEIGHTS}*")] if here() else ():
        with suppress(OSError, ValueError, KeyError):
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            owner = json.loads((folder / OWNER).read_text())
            if owner["place"] == here() and not any(begun(int(pid)) == at for pid, at in owner["processes"].items()):
                clear(folder, noted(folder))


def private_folder() -> Path:
    """Of this user alone, with a name short enough for sockets; those of processes that were killed go."""
    place = Path(tempfile.gettempdir())
    if len(str(place / PREFIX)) + 8 > LONGEST:
        place = Path("/tmp")
    sweep(place)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    claim(folder, os.getpid())
    return folder


def weights_folder() -> Path:
    """For a server of somebody else, which may see the folder for temporary files and no other."""
    place = Path(tempfile.gettempdir())
    sweep(place)
    folder = Path(tempfile.mkdtemp(prefix=WEIGHTS, dir=place))
    claim(folder, os.getpid())
    return folder


def here() -> list[str]:
    """Where a pid means the same process: this boot of this machine, or this container. Empty without /proc."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return [boot, os.readlink("/proc/self/ns/pid")]
    return []


def claim(folder: Path, *pids: int) -> None:
    """Writes down whose the folder is; one without this is being made."""
    owner = {"place": here(), "processes": {str(pid): begun(pid) for pid in pids}}
    (folder / "owner.new").write_text(json.dumps(owner))
    os.replace(folder / "owner.new", folder / OWNER)


def follow(number: int) -> None:
    """The kernel sends this signal when the parent ends."""
    ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG


def ended(server: "subprocess.Popen[bytes]", folder: Path, names: set[str]) -> None:
    """Ends the server and what it has started, gently first, and clears what is left."""
    names = note(folder, names)
    if server.poll() is None:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(PATIENCE)
    for patience in (WITNESS, 0.5):
        end = time.monotonic() + patience
        while session() and time.monotonic() < end:
            time.sleep(0.05)
        names = note(folder, names)
        for pid in session():
            tracks = b"resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes() if begun(pid) else False
            with suppress(OSError):
                if not tracks or patience != WITNESS:
                    os.kill(pid, signal.SIGKILL)
    server.wait()
    clear(folder, names)


def main() -> None:
    """Runs the command until it ends, the trainer is gone or a signal asks; takes away what both left."""
    folder, trainer, command = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: asked.append(number))
    follow(signal.SIGTERM)
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=lambda: follow(signal.SIGTERM))
    claim(folder, trainer, os.getpid(), server.pid)
    names, looked = set[str](), 0.0
    while not asked and os.getppid() == trainer and server.poll() is None:
        if time.monotonic() - looked > LOOK:
            names, looked = note(folder, names), time.monotonic()
        time.sleep(0.1)
    ended(server, folder, names)
    sys.exit(server.returncode if server.returncode >= 0 else 128 - server.returncode)


if __name__ == "__main__":
    main()
