"""Checkpoints in which each rank wrote its own shard: a folder, read by any number of ranks, with no code run from it.

.metadata        what lies where, pickled by torch.distributed.checkpoint
__0_0.distcp     shards of weights and optimizer state, a file of each rank
meta.pt          all that is no tensor of a model, as it stands in a checkpoint of one file
sums.json        checksums of these two; shards hold their own
"""

import io
import json
import os
import pickle
import zipfile
import zlib
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import CheckpointIO, TorchCheckpointIO
from torch.distributed.checkpoint import metadata
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner  # pyright: ignore
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict  # pyright: ignore

HEAD, INDEX, SUMS = "meta.pt", ".metadata", "sums.json"
PLAIN = {
    ("torch", "Size"),
    ("torch", "device"),
    ("torch.serialization", "_get_layout"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("collections", "OrderedDict"),
    ("pathlib", "PosixPath"),
    ("pathlib._local", "PosixPath"),
}


class PlainUnpickler(pickle.Unpickler):
    """Makes what an index consists of, and nothing else, whatever the file asks for."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        a_dtype = module_name == "torch" and isinstance(getattr(torch, global_name, None), torch.dtype)
        made_there = getattr(getattr(metadata, global_name, None), "__module__", None) == metadata.__name__
        described = module_name == metadata.__name__ and made_there
        if a_dtype or described or (module_name, global_name) in PLAIN:
            return super().find_class(module_name, global_name)
        if (module_name, global_name) == ("builtins", "getattr"):
            return member
        raise pickle.UnpicklingError(f"its index asks for {module_name}.{global_name}")


def member(kind: Any, name: str) -> Enum:
    """What Python 3.11.0 to 3.11.3 write for one of an enumeration: an attribute of its class.

    Raises UnpicklingError for anything else.
    """
    if not (isinstance(kind, type) and issubclass(kind, Enum) and name in kind.__members__):
        raise pickle.UnpicklingError(f"its index asks for {name} of {kind}")
    return kind[name]


def head_of(folder: Path) -> Any:
    """What meta.pt holds. Raises ValueError, OSError or UnpicklingError for a folder that is not whole."""
    for name in (HEAD, INDEX):
        if not (folder / name).is_file():
            raise ValueError(f"{name} is missing in the folder")
    for name, known in (json.loads((folder / SUMS).read_text()) if (folder / SUMS).exists() else {}).items():
        if zlib.crc32((folder / name).read_bytes()) != known:
            raise ValueError(f"{name} is damaged")
    with (folder / INDEX).open("rb") as file:
        index: Metadata = PlainUnpickler(file).load()
    for key, place in (index.storage_data or {}).items():
        path, end = folder / place.relative_path, place.offset + place.length
        size = path.stat().st_size if path.is_file() else 0
        if size < end:
            raise ValueError(f"{place.relative_path} has {size} bytes of at least {end}")
        with path.open("rb") as file:
            file.seek(place.offset)
            part = io.BytesIO(file.read(place.length))
        if damaged(part):
            raise ValueError(f"{place.relative_path} is damaged: {key.fqn} is not as it was written")
        if isinstance(index.state_dict_metadata[key.fqn], BytesStorageMetadata):  # which torch would unpickle unseen
            part.seek(0)
            torch.load(part, weights_only=True)
    if damaged(str(folder / HEAD)):
        raise ValueError(f"{HEAD} is damaged")
    return torch.load(folder / HEAD, map_location="cpu", weights_only=True)


def seal(folder: Path) -> None:
    """Writes down the checksums that head_of asks for, and returns when the disk holds them and what they are of."""
    sums = {name: zlib.crc32((folder / name).read_bytes()) for name in (HEAD, INDEX)}
    (folder / SUMS).write_text(json.dumps(sums) + "\n")
    for name in (HEAD, INDEX, SUMS):
        on_disk(folder / name)
    on_disk(folder)


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    """Whole weights by name, of any shape, out of a folder of shards, on one process."""
    return loaded(folder, {"state_dict"})["state_dict"]


def whole(folder: Path, optimizer: bool) -> dict[str, Any]:
    """As a checkpoint of one file would be. The whole of it is in host memory."""
    state = loaded(folder, None if optimizer else {"state_dict"})
    names = sorted(name for name in state if name.startswith("optimizer_"))
    checkpoint = head_of(folder) | {"state_dict": state["state_dict"]}
    return checkpoint | {"optimizer_states": [numbered(state[name]) for name in names]}


def loaded(folder: Path, keys: set[str] | None) -> dict[str, Any]:
    """What was saved under these first keys, or all of it, whole and on the CPU; one process reads all shards."""
    state: dict[str, Any] = {}
    _load_state_dict(state, FileSystemReader(folder), planner=_EmptyStateDictLoadPlanner(keys), no_dist=True)
    return state


def numbered(state: dict[str, Any]) -> dict[str, Any]:
    """An optimizer's state by the numbers of its parameters, as optimizers keep it, and not by their names."""
    names = [name for group in state["param_groups"] for name in group["params"]]
    numbers = {name: number for number, name in enumerate(names)}
    groups = [group | {"params": [numbers[name] for name in group["params"]]} for group in state["param_groups"]]
    return {"state": {numbers[name]: values for name, values in state["state"].items()}, "param_groups": groups}


def on_disk(path: Path) -> None:
    """Returns when the disk holds what was written to a file or folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def damaged(part: str | io.BytesIO) -> str | None:
    """What of a file that torch saved differs from what was written, by the checksums in it; None where all is well."""
    with zipfile.ZipFile(part) as archive:
        return archive.testzip()


class CheckpointFiles(CheckpointIO):
    """For strategies in which each rank has the whole policy: reads folders too. Writes one file."""

    def __init__(self, optimizer: bool) -> None:
        self.optimizer = optimizer  # whether its state is needed too
        self.one = TorchCheckpointIO()

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Straight into the file, which the disk holds when this returns; neither whole in memory nor through TMPDIR.

        Raises OSError or RuntimeError where the disk does not take it.
        """
        with open(path, "wb") as file:  # whose errors, unlike those of torch's own writer, say what the disk said
            torch.save(checkpoint, file)
        on_disk(Path(path))

    def load_checkpoint(
        self, path: Any, map_location: Callable[..., Any] | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        if Path(path).is_dir():
            return whole(Path(path), self.optimizer)
        return self.one.load_checkpoint(path, map_location or (lambda storage, location: storage), weights_only)

    def remove_checkpoint(self, path: Any) -> None:
        self.one.remove_checkpoint(path)
