"""LoRA: the base frozen, and beside each chosen matrix a product of two narrow ones that learns. arXiv:2106.09685"""

import math
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from isentropic.batch import DTYPES
from isentropic.policy.model.identity import fingerprint
from isentropic.policy.model.loading import BASE, own_rows

DOWN, UP = "lora_A", "lora_B"  # as peft calls the two
NAME = "default"  # of the one adapter


@dataclass(frozen=True)
class LoraSettings:
    """Without dropout, which would make two readings of a token differ. Adapters are kept in fp32, as all that learns.

    Raises ValueError for what cannot be, and where peft is not installed.
    """

    rank: int  # of the two factors of each adapter
    alpha: float  # the product counts alpha / rank times
    targets: list[str]  # last parts of the names of the matrices, such as q_proj
    base_dtype: str  # float32 or bfloat16, of the frozen weights
    seed: int  # of the first values

    def __post_init__(self) -> None:
        if self.rank < 1 or self.alpha <= 0:
            raise ValueError(f"rank={self.rank} must be at least 1 and alpha={self.alpha} above 0")
        if self.base_dtype not in DTYPES:
            raise ValueError(f"base_dtype={self.base_dtype} is not one of {', '.join(DTYPES)}")
        if not self.targets:
            raise ValueError("targets=[] leaves nothing that could learn; name matrices such as q_proj, v_proj")
        if find_spec("peft") is None:
            raise ValueError("policy/adapter=lora needs peft, not installed: pip install peft")

    def config(self, base: str) -> Any:
        """As peft keeps it. `base` is the folder or hub name of the model that it belongs to."""
        from peft import LoraConfig

        return LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,  # pyright: ignore[reportArgumentType]
            target_modules=self.targets,
            lora_dropout=0.0,
            bias="none",
            task_type="CAUSAL_LM",
            base_model_name_or_path=base,
        )

    def state(self, base: str) -> dict[str, Any]:
        """What a checkpoint of adapters is checked by, and goes on from: settings, and the base in folder `base`."""
        settings = {"rank": self.rank, "alpha": self.alpha, "targets": sorted(self.targets)}
        return settings | {"base_dtype": self.base_dtype, "path": base, "base": fingerprint(base)}

    def inject(self, lm: nn.Module, path: str) -> None:
        """Freezes all weights and sets an adapter beside each target, its values still to come from `begin`.

        Raises ValueError for targets that the model does not have, or whose outputs are read without their adapters.
        """
        from peft import inject_adapter_in_model

        linear = {name.rpartition(".")[2] for name, part in lm.named_modules() if isinstance(part, nn.Linear)}
        head = lm.get_output_embeddings()  # pyright: ignore
        usable = linear - {name.rpartition(".")[2] for name, part in lm.named_modules() if part is head}
        if unknown := sorted(set(self.targets) - usable):
            raise ValueError(
                f"policy.adapter.targets has {', '.join(unknown)}, for which {path} has no matrix that an adapter can "
                f"be set beside; it has {', '.join(sorted(usable))}"
            )
        inject_adapter_in_model(self.config(path), lm, NAME)
        for name, param in lm.named_parameters():
            param.requires_grad_(is_adapter(name))
            if is_adapter(name):
                param.data = param.data.float()

    @torch.no_grad()
    def begin(self, lm: nn.Module) -> None:
        """As in the paper: one matrix random, the other zero, so that training starts from the base.

        The same values on any number of ranks.
        """
        generator = torch.Generator().manual_seed(self.seed)
        for name, param in lm.named_parameters():
            if f".{DOWN}." in name:
                bound = 1 / math.sqrt(param.shape[1])
                values = torch.rand(param.shape, generator=generator, device="cpu").mul_(2 * bound).sub_(bound)
                if isinstance(param, DTensor):
                    first, last = own_rows(param)
                    param.to_local().copy_(values[first:last])
                else:
                    param.copy_(values)
            elif f".{UP}." in name:
                param.zero_()

    def merged(self, state: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """The weights that the policy acts by, under the base's names; one at a time, the module stays as it is."""
        for name, value in state.items():
            if is_adapter(name):
                continue
            if name.endswith(f"{BASE}weight"):
                prefix = name.removesuffix(f"{BASE}weight")
                down, up = (state[f"{prefix}.{part}.{NAME}.weight"] for part in (DOWN, UP))
                value = sum_of(value, down, up, self.alpha / self.rank)
            yield name.replace(BASE, "."), value


def is_adapter(name: str) -> bool:
    """Whether a weight of this name is of an adapter, and learns."""
    return f".{DOWN}." in name or f".{UP}." in name


@torch.no_grad()
def sum_of(base: Tensor, down: Tensor, up: Tensor, scale: float) -> Tensor:
    """base + scale * up @ down, of shapes [O, I], [O, R], [R, I], in fp32.

    Sharded rows of the base and of `up` lie on the same rank, so that only the narrow `down` travels.
    """
    if isinstance(base, DTensor) and isinstance(up, DTensor) and isinstance(down, DTensor):
        local = sum_of(base.to_local(), down.full_tensor(), up.to_local(), scale)
        return DTensor.from_local(
            local, base.device_mesh, base.placements, run_check=False, shape=base.shape, stride=base.stride()
        )
    return torch.addmm(base.float(), up, down, alpha=scale)


def keep_adapters_alone(module: nn.Module) -> None:
    """From now on `module.state_dict()` holds what learns, and loading it back misses nothing."""

    def drop(module: nn.Module, state: dict[str, Any], prefix: str, local: Any) -> None:
        for name in [name for name in state if name.startswith(prefix) and not is_adapter(name)]:
            del state[name]

    def forgive(module: nn.Module, incompatible: Any) -> None:
        missing = [name for name in incompatible.missing_keys if is_adapter(name)]
        incompatible.missing_keys[:] = missing

    module.register_state_dict_post_hook(drop)
    module.register_load_state_dict_post_hook(forgive)


@contextmanager
def without(modules: Iterable[nn.Module]) -> Generator[None]:
    """Inside, the base alone answers."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [layer for layer in modules if isinstance(layer, BaseTunerLayer)]
    try:
        for layer in layers:
            layer._disable_adapters = True  # enable_adapters would also switch gradients, which FSDP2 reads once
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False
