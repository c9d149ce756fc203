"""The peers' own functions, from the files of their wheels, without the heavy packages that those depend on.

What a function under test never touches (ray, datasets, ...) may be missing: where a peer's file imports it, it gets
an `Absent` instead, and only while it is being loaded; used afterwards, it raises. Nothing of the peers' own is
replaced, and nothing but their files stays in `sys.modules`.
"""

import builtins
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec, resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

# Beside the environment, not in it: see install_peers in requirements/install.py.
FOLDER = Path(sys.prefix) / "peers"

VERL = ("ray", "tensordict", "codetiming", "orjson")
TRL = ("accelerate", "datasets", "pandas", "pyarrow", "trl.generation", "trl.models", "trl.trainer.callbacks")


class Absent(type):
    """A name of a package that is not there: good for annotations and base classes."""

    loading = False

    def __new__(cls, name: str):
        return super().__new__(cls, name, (), {})

    def __init__(cls, name: str):
        super().__init__(name, (), {})

    def __call__(cls, *arguments: object, **named: object) -> "Absent":
        if not Absent.loading:
            raise ModuleNotFoundError(f"{cls.__name__} is not installed, and a function under test called it")
        return cls

    def __getattr__(cls, name: str) -> "Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{cls.__name__}.{name}")


@contextmanager
def without(peer: str, absent: tuple[str, ...]) -> Iterator[None]:
    """Imports of `absent` that are written in the peer's files find an Absent."""
    real = builtins.__import__

    def lenient(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if globals and str(globals.get("__name__")).partition(".")[0] == peer:
            full = resolve_name("." * level + name, globals["__package__"]) if level else name
            if any(f"{full}.".startswith(f"{one}.") for one in absent):
                return Absent(full if fromlist else full.partition(".")[0])
        return real(name, globals, locals, fromlist, level)

    environment = dict(os.environ)
    builtins.__import__, Absent.loading = lenient, True
    try:
        yield
    finally:
        builtins.__import__, Absent.loading = real, False
        os.environ.clear()
        os.environ.update(environment)


def peer(module: str, absent: tuple[str, ...] = (), unopened: tuple[str, ...] = ()) -> ModuleType:
    """A module of a peer; of the packages in `unopened`, which would import all their others, no __init__ is run."""
    name = module.partition(".")[0]
    sys.path.append(str(FOLDER))
    try:
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed: make setup, with Python below 3.13 for verl")
        for package in unopened:
            if package not in sys.modules:
                spec = find_spec(package)
                assert spec
                sys.modules[package] = module_from_spec(spec)
        with without(name, absent):
            return importlib.import_module(module)
    finally:
        sys.path.remove(str(FOLDER))


@pytest.fixture
def core_algos() -> ModuleType:
    return peer("verl.trainer.ppo.core_algos", VERL, ("verl",))


@pytest.fixture
def rollout_corr() -> ModuleType:
    return peer("verl.trainer.ppo.rollout_corr_helper", VERL, ("verl",))


@pytest.fixture
def trl_utils() -> ModuleType:
    return peer("trl.trainer.utils", TRL)


@pytest.fixture
def trl_grpo() -> ModuleType:
    return peer("trl.trainer.grpo_trainer", TRL)


@pytest.fixture
def liger_grpo() -> ModuleType:
    return peer("liger_kernel.chunked_loss.grpo_loss", (), ("liger_kernel", "liger_kernel.chunked_loss"))


def scene(seed: int) -> Any:
    """A step of 18 answers in five groups, mixed up and ragged: (batch, what the policy thinks now), in fp64.

    One answer lost all its tokens, one group has equal rewards; some tokens moved far enough for every clipping, and
    padding holds garbage.
    """
    from isentropic.batch import ScoredBatch, TokenStats

    draw = torch.Generator().manual_seed(seed)
    group = torch.tensor([0] * 4 + [1] * 2 + [2] * 3 + [3] * 5 + [4] * 4)[torch.randperm(18, generator=draw)]
    shape = (len(group), 9)
    length = torch.randint(1, 10, (len(group), 1), generator=draw)
    length[seed % 18] = 0
    mask = torch.arange(9) < length
    reward = torch.randint(0, 5, (len(group),), generator=draw).double() / 4
    reward[group == 4] = 1.0

    def uniform() -> torch.Tensor:
        return torch.rand(shape, generator=draw, dtype=torch.float64)

    def noise(size: float) -> torch.Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64) * size

    old = 2 * uniform().log()
    now = (old + noise(0.3) + torch.where(uniform() < 0.2, noise(3.0), 0.0)).clamp(max=-1e-3)
    sampler, ref, old_entropy, entropy, sensitivity = old + noise(0.5), old + noise(0.3), *(uniform() for _ in range(3))
    old, now, sampler, ref = (x.masked_fill(~mask, -30.0) for x in (old, now, sampler, ref))
    truncated = group < 0
    tokens = torch.zeros(shape, dtype=torch.long)
    rows = (tokens, mask, group, reward, reward > 0.5, truncated, sampler)
    return ScoredBatch(*rows, old, old_entropy, sensitivity, ref), TokenStats(now, entropy, sensitivity)


@pytest.fixture(params=range(4))
def a_step(request: pytest.FixtureRequest) -> Any:
    return scene(request.param)


@pytest.fixture
def an_answered_step(a_step: Any) -> Any:
    """Without the answer that has no tokens, which some count among the answers and we do not."""
    batch, now = a_step
    rows = batch.mask.any(-1)
    return batch[rows], now[rows]


@pytest.fixture
def scenes() -> Any:
    return [scene(seed) for seed in range(4)]


@pytest.fixture
def agree() -> Callable[[tuple[float, torch.Tensor], tuple[float, torch.Tensor]], None]:
    """(loss, gradient), ours and theirs."""

    def compared(ours: tuple[float, torch.Tensor], theirs: tuple[float, torch.Tensor]) -> None:
        assert ours[0] == pytest.approx(theirs[0], abs=1e-6)
        assert torch.allclose(ours[1], theirs[1], rtol=0, atol=1e-6)
        assert ours[1].abs().max() > 1e-3

    return compared


@pytest.fixture
def verl_loss(core_algos: ModuleType) -> Callable[..., tuple[float, torch.Tensor]]:
    """verl's own policy loss, as (loss, gradient at each log-prob); keywords are fields of its ActorConfig."""

    def charged(name: str, batch: Any, now: Any, advantages: Any, mode: str, weights: Any = None, **settings: Any):
        logp = now.logp.clone().requires_grad_()
        if "policy_loss" in settings:
            settings["policy_loss"] = core_algos.ActorConfig.__dataclass_fields__["policy_loss"].default_factory(
                **settings["policy_loss"]
            )
        config = core_algos.ActorConfig(strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=1, **settings)
        loss, _ = core_algos.get_policy_loss_fn(name)(
            batch.old_logp, logp, advantages, batch.mask.double(), mode, config, weights
        )
        loss.backward()
        return loss.item(), logp.grad

    return charged
