"""Is this checkpoint one that the policy can go on from?"""

from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from isentropic.policy.checkpoint_files import damaged, head_of
from isentropic.policy.model.identity import SHAPE, fingerprint, shape
from isentropic.runs.files import check_not_around, check_place


def read(checkpoint: str, called: str = "ckpt_path") -> dict[str, Any]:
    """The content of a checkpoint of one file, or of a sharded one without its tensors.

    Raises ValueError where it is missing, unreadable, or not ours; `called` is what the user named it by.
    """
    path = Path(checkpoint)
    check_place(checkpoint, called)
    check_not_around(checkpoint, called)
    try:
        content = head_of(path) if path.is_dir() else one_file(path)
    except Exception as error:  # damaged bytes make readers stumble in ways of their own
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise ValueError(f"{called}={checkpoint} cannot be read and may be cut off: {reason}") from error
    if not isinstance(content, dict) or "isentropic" not in content:
        raise ValueError(f"{called}={checkpoint} was not written by isentropic.train")
    return content


def one_file(path: Path) -> Any:
    """Raises ValueError for one that is not as it was written."""
    stat = path.stat()
    if part := damaged_part(path, stat.st_mtime_ns, stat.st_size):
        raise ValueError(f"it is damaged: {part} in it is not as it was written")
    return torch.load(path, "cpu", weights_only=True, mmap=True)


@cache
def damaged_part(path: Path, written: int, size: int) -> str | None:
    """Read whole once, a second for each GB, as a run asks several times."""
    return damaged(str(path))


def check(checkpoint: str, model: str, adapter: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the policy saved beside its weights.

    Raises ValueError as `read` does, for another model than the folder or hub name `model`, and for adapters of other
    settings than `adapter`, or of another base.
    """
    state = read(checkpoint)["isentropic"]
    theirs, ours = state["model"], shape(AutoConfig.from_pretrained(model))
    if theirs != ours:
        difference = ", ".join(f"{k} {theirs[k]} instead of {ours[k]}" for k in SHAPE if theirs[k] != ours[k])
        raise ValueError(f"ckpt_path={checkpoint} is of another model than policy.model.path={model}: {difference}")
    check_adapter(f"ckpt_path={checkpoint}", state.get("adapter"), model, adapter)
    return state


def check_adapter(checkpoint: str, saved: dict[str, Any] | None, model: str, asked: dict[str, Any] | None) -> None:
    """Raises ValueError where what learns is not what was saved, or beside other weights than it learnt beside."""
    if saved is None or asked is None:
        if saved is not asked:
            holds, wanted = ("adapters alone", "lora") if saved else ("whole weights", "null")
            raise ValueError(f"{checkpoint} holds {holds}; take policy/adapter={wanted} for it")
        return
    theirs, ours = ({key: place[key] for key in ("rank", "alpha", "targets")} for place in (saved, asked))
    ours["targets"] = sorted(ours["targets"])
    if theirs != ours:
        difference = ", ".join(
            f"{key} {theirs[key]} instead of {ours[key]}" for key in theirs if theirs[key] != ours[key]
        )
        raise ValueError(f"{checkpoint} is of an adapter of other settings than policy.adapter: {difference}")
    if saved["base"] != fingerprint(model):
        raise ValueError(
            f"{checkpoint} holds adapters of {saved['path']}, and the weights in policy.model.path={model} are others; "
            "adapters only work with the weights that they were trained on"
        )
