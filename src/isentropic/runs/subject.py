"""What may be judged, told by name and files alone: a model's folder, a checkpoint, a run's folder, a server."""

import re
import socket
import zipfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from isentropic.runs import files

SERVER = ("http://", "https://")
PORTS = {"http": 80, "https": 443}
GIVE = "give a model's folder, a checkpoint, a run's folder or a server's URL"


@dataclass(frozen=True)
class Subject:
    """Of the three one is set."""

    name: str  # for the folder
    model: Path | None = None  # a folder with config.json and weights
    checkpoint: Path | None = None  # of ours, a file or a sharded folder
    url: str | None = None


def subject_of(given: str) -> Subject:
    """From what a user named. Raises ValueError for what does not exist, or is neither a model nor a checkpoint."""
    if given.lower().startswith(SERVER):
        place_of(given)
        url = given.rstrip("/").removesuffix("/v1").rstrip("/")
        return Subject(named(url.partition("://")[2]), url=url)
    path = check_there(given)
    if (path / "config.json").is_file():
        if not any(any(path.glob(pattern)) for pattern in files.WEIGHTS):
            raise ValueError(f"subject={given} holds no weights ({', '.join(files.WEIGHTS)}), only a config.json")
        return Subject(named(path.resolve().name), model=path.resolve())
    checkpoint = checkpoint_in(path)
    if path.is_dir() and checkpoint == path and not path.suffix == ".ckpt" and not (path / "meta.pt").is_file():
        raise ValueError(
            f"subject={given} is neither a model's folder, which has a config.json, nor a run's, which has "
            f"{files.LAST_CHECKPOINT}"
        )
    whole = checkpoint.resolve()
    if whole.is_file() and not zipfile.is_zipfile(whole):
        raise ValueError(f"subject={given} cannot be read as a checkpoint, and may be cut off; {GIVE}")
    run = whole.parent.parent.name if whole.parent.name == files.CHECKPOINTS else whole.parent.name
    return Subject(named(f"{run}-{whole.stem}"), checkpoint=whole)


def check_there(given: str) -> Path:
    """The path. Raises ValueError where nothing is there."""
    path = Path(given).expanduser()
    try:
        there = path.exists()
    except (OSError, ValueError):  # a name that no file can have
        there = False
    if not there:
        raise ValueError(f"subject={given} does not exist; {GIVE}")
    return path


def is_path(given: str) -> bool:
    """Whether it can only be a place on this machine, and no name on the hub."""
    return given.startswith((".", "/", "~")) or given.count("/") > 1


def checkpoint_in(path: Path) -> Path:
    """A run's last checkpoint, or the path itself where it is no run's folder."""
    last = path / files.LAST_CHECKPOINT
    return last if last.exists() else path


def named(text: str) -> str:
    """As a part of a folder's name."""
    return re.sub(r"[^\w.+-]+", "-", text).strip("-.") or "subject"


def place_of(url: str) -> tuple[str, int]:
    """Host and port. Raises ValueError for a URL that names none, or more than a server; a password is not repeated."""
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise ValueError("subject is a URL with a name or a password, which servers are not asked with; leave it out")
    if "?" in url or "#" in url:
        raise ValueError(f"subject={url} is a page of a server; write http://host:port")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or PORTS[parts.scheme]
    except ValueError as error:
        raise ValueError(f"subject={url} names no server: {error}") from None
    if not host:
        raise ValueError(f"subject={url} names no server; write http://host:port")
    return host, port


def check_reached(url: str, seconds: float) -> None:
    """Raises ValueError where nothing takes a connection."""
    try:
        socket.create_connection(place_of(url), seconds).close()
    except OSError as error:
        raise ValueError(f"the server at {url} cannot be reached within {seconds:g} seconds ({error})") from None
