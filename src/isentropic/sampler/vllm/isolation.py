"""What an engine inside the trainer's process may not change there: random state, threads, process group."""

# pyright: reportUnknownMemberType=false

import os
import random
import sys
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from isentropic.distributed import keep_to_this_machine
from isentropic.sampler import SamplerError


def prepare_environment() -> None:
    """What vLLM reads when it is imported or built; what a user has set stays, but for the one process we need."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    defaults = {
        "VLLM_LOGGING_LEVEL": "ERROR",  # it warns of each thing that we do on purpose, some at every load
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else it pins the trainer's threads
        "VLLM_USE_FLASHINFER_SAMPLER": "0",  # has neither processed log-probs nor seeds per request
    }
    if not dist.is_initialized():  # else the trainer's ranks have found each other somewhere
        keep_to_this_machine()
    elif dist.get_world_size() > 1:
        rank = str(dist.get_rank())
        os.environ |= {"RANK": rank, "WORLD_SIZE": str(dist.get_world_size())}
        defaults["LOCAL_RANK"] = os.environ.get("SLURM_LOCALID", rank)
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    # vLLM 0.32 on CPU asks every object of every module for its `__dict__`, and this one answers with a C function
    if llvmlite := sys.modules.get("llvmlite.binding.ffi"):
        llvmlite.lib._fntab.setdefault("__dict__", {})


def check_card(policy: int, engine: int) -> None:
    """Raises ValueError where the two are on different GPUs; an engine goes by its rank's number on this machine."""
    if policy != engine:
        raise ValueError(
            f"the policy is on GPU {policy} of those that are visible, and its engine would be on GPU {engine}; choose"
            " GPUs by CUDA_VISIBLE_DEVICES, and only their number by trainer.devices"
        )


@contextmanager
def untouched_process(eager: bool) -> Generator[None, None, None]:
    """Restores the trainer's random state and thread count, both of which the engine sets.

    Eager: nothing is compiled inside, which would take a C++ compiler on CPU and half a minute.
    """
    python, array = random.getstate(), np.random.get_state()
    set_threads, threads = torch.set_num_threads, torch.get_num_threads()
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with (
        warnings.catch_warnings(),
        torch.random.fork_rng(devices),
        torch.compiler.set_stance("force_eager" if eager else "default"),
    ):
        warnings.simplefilter("ignore", FutureWarning)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(array)
            torch.set_num_threads = set_threads  # vLLM replaces it on CPU
            if torch.get_num_threads() != threads:
                set_threads(threads)


@contextmanager
def temporary_files(folder: Path) -> Generator[None, None, None]:
    """What is made inside lies there, where it can be told from that of others."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


@contextmanager
def kept_group() -> Generator[None, None, None]:
    """The engine's end destroys the groups it made, and would destroy the trainer's with them."""
    destroy = dist.destroy_process_group

    def destroy_all_but_the_default(group: Any = None) -> None:
        if group not in (None, dist.group.WORLD):
            destroy(group)

    dist.destroy_process_group = destroy_all_but_the_default
    try:
        yield
    finally:
        dist.destroy_process_group = destroy


@contextmanager
def going_to_sleep() -> Generator[None]:
    """Raises SamplerError where another process takes of the card what vLLM gives back, which it takes for its own."""
    try:
        yield
    except AssertionError as error:
        raise SamplerError(
            "vLLM found more of the card in use when it had gone to sleep, as another process took what it gave back; "
            "take sampler.sleep_level=0 where runs share a card"
        ) from error
