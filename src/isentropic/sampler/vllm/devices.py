"""Which cards the policy is on, and which a server beside it is given."""

import os
from socket import gethostname

import torch
import torch.distributed as dist


def policy_cards() -> set[str]:
    """Those of this machine on which ranks are, as CUDA_VISIBLE_DEVICES names them; ValueError if none. Collective."""
    check_any()
    own = gethostname(), visible(None)[torch.cuda.current_device()]
    every = [own]
    if dist.is_initialized():
        every *= dist.get_world_size()
        dist.all_gather_object(every, own)
    return {card for host, card in every if host == own[0]}


def check_any() -> None:
    """Raises ValueError where there is no card to send weights from."""
    if not torch.cuda.is_available():
        raise ValueError("sampler.transfer=nccl sends weights from card to card, and here is none; take file")


def check_cards(devices: str | None, size: int, taken: set[str]) -> None:
    """Raises ValueError where a server on the first `size` of `devices` would share a card with the policy."""
    if shared := taken.intersection(visible(devices)[:size]):
        raise ValueError(
            f"sampler.devices={devices or 'null'} puts the server on card {min(shared)}, on which the policy is, and "
            "NCCL takes weights only from one card to another; name other cards, or take sampler.transfer=file"
        )


def visible(devices: str | None) -> list[str]:
    """The cards of a process that is given `devices`; None is what this one is given."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES") if devices is None else devices
    if given is None:
        return [str(number) for number in range(torch.cuda.device_count())]
    return [name.strip() for name in given.split(",")]
