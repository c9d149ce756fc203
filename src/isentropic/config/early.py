"""What cannot be, seen in the settings and on this machine alone: no part is imported for it, and no folder is left."""

import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from isentropic.config.build import BadInput, bad_input
from isentropic.runs.files import WEIGHTS, check_place

STEPS = "rollouts are counted by rollout.steps"
# What Lightning's trainer takes and a run has no use for: the values that say nothing, and where the same is set.
UNUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "max_epochs": ((1, None), STEPS),
    "min_epochs": ((0, None), STEPS),
    "max_steps": ((-1,), STEPS),
    "min_steps": ((0, None), STEPS),
    "limit_train_batches": ((1.0, None), STEPS),
    "overfit_batches": ((0.0, 0), "debug=overfit learns from the same few problems"),
    "num_sanity_val_steps": ((0,), "the policy is evaluated before the first rollout anyway"),
    "check_val_every_n_epoch": ((None,), "rollouts between evaluations are trainer.val_check_interval"),
    "limit_val_batches": (
        (1.0, 0, 0.0, None),
        "0 takes evaluations away; rollout.evaluation.problems shortens them",
    ),
    "limit_test_batches": ((1.0, None), "isentropic eval judges rollout.evaluation.problems"),
    "limit_predict_batches": ((1.0, None), "nothing is predicted"),
    "reload_dataloaders_every_n_epochs": ((0,), "prompts are streamed"),
    "use_distributed_sampler": ((False,), "rollouts are made on the rank that learns from them"),
    "sync_batchnorm": ((False, None), "a language model has no batch norm"),
    "barebones": ((False,), "take callbacks=none and logger=none"),
}
FIRST = 2**17  # bytes of what a run writes before it learns
SIZES = ("steps", "batch_size", "group_size", "max_tries")
MODEL_FILES = {
    "config": ("config.json",),
    "weights": WEIGHTS,
    "tokenizer": ("tokenizer.json", "tokenizer.model", "vocab.*", "*.tiktoken"),
}
GPUS = "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvhost-ctrl", "/dev/dxg", "/dev/kfd"  # of CUDA, WSL and ROCm
HIDDEN = "", "-1", "NoDevFiles"  # values of CUDA_VISIBLE_DEVICES that leave none


def check_trainer(trainer: Mapping[str, Any]) -> None:
    """Raises BadInput for a setting of Lightning's trainer that would be ignored, or cannot be."""
    for name, (neutral, instead) in UNUSED.items():
        value = trainer.get(name, neutral[0])
        if not any(value == one and type(value) is type(one) for one in neutral):  # 1 is a number of batches, 1.0 all
            raise BadInput(f"trainer.{name}={value} has no use here: {instead}")
    for name, least in (("devices", 1), ("num_nodes", 1), ("log_every_n_steps", 1)):
        value = trainer.get(name, least)
        if (isinstance(value, int) and value < least and (name, value) != ("devices", -1)) or value in ("", "0", []):
            raise BadInput(f"trainer.{name}={value} must be at least {least}")
    every = trainer.get("val_check_interval")
    if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
        raise BadInput(
            f"trainer.val_check_interval={every} is not a whole number of rollouts of at least 1; "
            "+trainer.limit_val_batches=0 takes evaluations away"
        )


def check_sizes(settings: Mapping[str, Any]) -> None:
    """Raises BadInput for a rollout of nothing."""
    rollout = settings.get("rollout")
    for name in SIZES:
        value = rollout.get(name) if isinstance(rollout, Mapping) else None
        if isinstance(value, int) and value < 1:
            raise BadInput(f"rollout.{name}={value} must be at least 1")


def check_current_folder() -> None:
    """Raises BadInput where it was removed, and no path means anything."""
    try:
        os.getcwd()
    except OSError as error:
        raise BadInput(f"the current folder is gone ({error.strerror}); change to one that exists") from error


def check_checkpoint(cfg: DictConfig) -> None:
    """Raises BadInput where there is none, and for what is no path; `last` may be none yet."""
    checkpoint = cfg.get("ckpt_path")
    if checkpoint is not None and not (isinstance(checkpoint, str) and checkpoint):
        raise BadInput(
            f"ckpt_path={checkpoint} is no path of a checkpoint; null begins anew, and last goes on with the run's own"
        )
    if isinstance(checkpoint, str) and checkpoint != "last":
        with bad_input():
            check_place(checkpoint)


def check_run_folder(key: str, folder: str, links: bool = False) -> None:
    """Raises BadInput where the folder cannot be made, or be written to, or hold `links`, as checkpoints are kept by.

    Nothing that another run may see is made.
    """
    place = Path(folder).absolute()
    try:
        with suppress(FileNotFoundError):
            os.lstat(place)  # refuses names that no file can have
        while not place.exists():
            place = place.parent
        with tempfile.TemporaryDirectory(dir=place) as inside:
            Path(inside, "first").write_bytes(bytes(FIRST))
            if links:
                os.symlink("first", Path(inside, "link"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{key}={folder} cannot be a run's folder: {reason}") from error


def check_hardware(cfg: DictConfig) -> None:
    """For the machine that a run is about to use. Raises BadInput where a GPU is asked for and there is none."""
    if has_gpu():
        return
    sampler, none = cfg.sampler, "and this machine shows no GPU"
    if cfg.trainer.accelerator in ("gpu", "cuda"):
        raise BadInput(f"trainer.accelerator={cfg.trainer.accelerator} is asked for, {none}; trainer=cpu needs none")
    device = str(sampler.get("device", ""))
    if device.startswith("cuda"):
        raise BadInput(f"sampler.device={device} is asked for, {none}; take sampler.device=cpu")
    if "sleep_level" in sampler and sampler.get("kv_cache_gib") is None:
        raise BadInput(
            f"sampler.kv_cache_gib=null, as sampler=vllm_gpu has it, is a share of a GPU's memory, {none}; "
            "sampler=vllm needs none"
        )
    if sampler.get("transfer") == "nccl" and not sampler.get("url"):
        raise BadInput(f"sampler.transfer=nccl is between GPUs, {none}; take sampler.transfer=file")


def check_model_folder(cfg: DictConfig) -> None:
    """Raises BadInput for a folder that lacks what a model needs, and for a sampler of another model."""
    path = str(cfg.policy.model.path)
    own = cfg.sampler.get("path")
    if own is not None and own != path and Path(own).absolute() != Path(path).absolute():
        raise BadInput(
            f"sampler.path={own} is another model than policy.model.path={path}, whose weights the sampler is given; "
            "leave it out"
        )
    folder = Path(path)
    if not folder.is_dir():
        if folder.is_absolute() or path.startswith("."):  # no name on the hub; transformers takes seconds to say so
            raise BadInput(
                f"policy.model.path: path={path} is not a model folder, nor a model that the hub or what is cached of "
                "it gives here"
            )
        return
    own = cfg.get("rollout", {}).get("tokenizer", path) == path  # or it lies elsewhere
    for what, patterns in MODEL_FILES.items():
        if (own or what != "tokenizer") and not any(any(folder.glob(pattern)) for pattern in patterns):
            wanted = ", ".join(patterns)
            raise BadInput(f"policy.model.path={path} is not a model folder: it holds no {what} ({wanted})")


def has_gpu() -> bool:
    """Without importing torch, which takes seconds. True where it cannot be told, as on macOS."""
    if not sys.platform.startswith("linux"):
        return True
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() not in HIDDEN and any(map(os.path.exists, GPUS))
