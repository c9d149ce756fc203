"""What is judged: a model's folder, a checkpoint of ours, a run's folder, or a server."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from isentropic.batch import DTYPES
from isentropic.evaluation.versions import WEIGHTS, checkpoint_hash
from isentropic.policy.checkpoint_checks import read
from isentropic.policy.export import Request, checkpoint_in, export
from isentropic.runs import files

SERVER = ("http://", "https://")


@dataclass(frozen=True)
class Subject:
    """Of the three one is set. Raises ValueError, from `subject_of`, for what is none of them."""

    name: str  # for the folder
    model: Path | None = None  # a folder with config.json and weights
    checkpoint: Path | None = None  # of ours, a file or a sharded folder
    url: str | None = None


def subject_of(given: str) -> Subject:
    """From what a user named. Raises ValueError for what does not exist, or is neither a model nor a checkpoint."""
    if given.startswith(SERVER):
        return Subject(named(urlsplit(given).netloc), url=given.rstrip("/"))
    path = Path(given).expanduser()
    if not path.exists():
        raise ValueError(
            f"subject={given} does not exist; give a model's folder, a checkpoint, a run's folder or a server's URL"
        )
    if (path / "config.json").is_file():
        if not any(any(path.glob(pattern)) for pattern in WEIGHTS):
            raise ValueError(f"subject={given} holds no weights ({', '.join(WEIGHTS)}), only a config.json")
        return Subject(named(path.resolve().name), model=path.resolve())
    checkpoint = checkpoint_in(path)
    if path.is_dir() and checkpoint == path and not path.suffix == ".ckpt" and not (path / "meta.pt").is_file():
        raise ValueError(
            f"subject={given} is neither a model's folder, which has a config.json, nor a run's, which has "
            f"{files.LAST_CHECKPOINT}"
        )
    whole = checkpoint.resolve()
    run = whole.parent.parent.name if whole.parent.name == files.CHECKPOINTS else whole.parent.name
    return Subject(named(f"{run}-{whole.stem}"), checkpoint=whole)


def named(text: str) -> str:
    """As a part of a folder's name."""
    return re.sub(r"[^\w.+-]+", "-", text).strip("-.") or "subject"


def exported(checkpoint: Path, dtype: str, base: str | None) -> Path:
    """The folder of a checkpoint beside it, made once; a checkpoint of another content has another.

    Raises ValueError for what is no checkpoint, OSError where its folder takes none.
    """
    mark = checkpoint_hash(checkpoint)[:12]
    folder = checkpoint.with_name(f"exported_{checkpoint.stem}_{mark}_{dtype}")
    if (folder / "config.json").is_file():
        return folder
    own = checkpoint.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(own, ignore_errors=True)
    read(str(checkpoint), "subject")
    export(Request(checkpoint, own, DTYPES[dtype], merge=True, model=base))
    try:
        os.replace(own, folder)
    except OSError:  # another process was first
        shutil.rmtree(own, ignore_errors=True)
        if not (folder / "config.json").is_file():
            raise
    return folder
