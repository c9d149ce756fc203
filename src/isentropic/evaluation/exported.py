"""A checkpoint of ours as a model's folder beside it."""

import os
import shutil
from pathlib import Path

from isentropic.batch import DTYPES
from isentropic.evaluation.versions import checkpoint_hash
from isentropic.policy.checkpoint_checks import read
from isentropic.policy.export import Request, export


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
