"""What engines ask of a model folder and of a request before they spend time on it."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from isentropic.sampler import Decoding, Request


def check_model(path: str, context: int) -> None:
    """Raises ValueError where `path` is no model, or one that reads fewer than `context` tokens."""
    if Path(path).exists() and not (Path(path) / "config.json").is_file():
        raise ValueError(f"path={path} is not a model folder: it holds no config.json")
    try:
        config = AutoConfig.from_pretrained(path)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"path={path} is not a model folder, nor a model that the hub or what is cached of it gives here"
        ) from error
    longest = getattr(config, "max_position_embeddings", context)
    if context > longest:
        raise ValueError(f"sampler.max_model_len={context} is more than the {longest} tokens that the model reads")


def weight_names(path: str) -> frozenset[str]:
    """All names of the model's state, tied aliases included."""
    with torch.device("meta"):
        return frozenset(AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path)).state_dict())


def arriving(
    weights: Iterable[tuple[str, Tensor]], names: frozenset[str], dtype: torch.dtype, path: str, seen: set[str]
) -> Iterator[tuple[str, Tensor]]:
    """The weights in the engine's type, their names added to `seen`. Raises ValueError for one not in `names`."""
    for name, tensor in weights:
        if name not in names:
            raise ValueError(f"weight {name} is not one of the model in {path}")
        seen.add(name)
        yield name, tensor.detach().to(dtype)


def check_arrived(names: frozenset[str], seen: set[str]) -> None:
    """Raises ValueError where a load left out some of a model's weights."""
    if missing := names - seen:
        raise ValueError(f"{len(missing)} weights did not come, {min(missing)} among them; a load takes all")


def check_requests(
    prompts: Sequence[Sequence[int]], count: int, seeds: Sequence[int], decoding: Decoding, context: int
) -> None:
    """Raises ValueError for prompts that `context` has no room for, and seeds that would repeat a completion."""
    if len(seeds) != len(prompts):
        raise ValueError(f"{len(prompts)} prompts came with {len(seeds)} seeds; each prompt has one")
    if count < 1:
        raise ValueError(f"count={count} completions of each prompt is not at least 1")
    if decoding.greedy and count > 1:
        raise ValueError(f"count={count} completions at temperature=0 would all be the same; take count=1")
    longest = max(map(len, prompts), default=0)
    if longest >= context:
        raise ValueError(f"a prompt of {longest} tokens leaves no room for a token in sampler.max_model_len={context}")
    if longest + decoding.max_tokens > context:
        raise ValueError(
            f"a prompt of {longest} tokens and max_tokens={decoding.max_tokens} together exceed"
            f" sampler.max_model_len={context}"
        )
    if not all(prompts):
        raise ValueError("a prompt of 0 tokens was given; a prompt has at least one")
    check_seeds(prompts, count, seeds)


def check_rows(requests: Sequence[Request], decoding: Decoding, context: int) -> None:
    """Raises ValueError for a request that `context` has no room for, or that may write nothing or too much."""
    for one in requests:
        length, limit = len(one.prompt), one.limit
        if not length:
            raise ValueError("a prompt of 0 tokens was given; a prompt has at least one")
        if not 1 <= limit <= decoding.max_tokens:
            raise ValueError(f"a limit of {limit} tokens is not from 1 to max_tokens={decoding.max_tokens}")
        if length + limit > context:
            raise ValueError(
                f"a prompt of {length} tokens and a limit of {limit} together exceed sampler.max_model_len={context}"
            )
        if not 0 <= one.seed < 2**63:
            raise ValueError(f"seed {one.seed} does not lie in [0, 2**63)")


def sharing(requests: Sequence[Request]) -> Iterator[list[Request]]:
    """Requests in turn, those together that are next to each other and share the list of their prompt."""
    return (list(group) for _, group in groupby(requests, key=lambda request: id(request.prompt)))


def check_seeds(prompts: Sequence[Sequence[int]], count: int, seeds: Sequence[int]) -> None:
    """Child i is drawn with seed + i, so closer seeds on one prompt would give the same completion twice.

    Raises ValueError for those, and for seeds outside [0, 2**63).
    """
    if not all(0 <= seed < 2**63 - count for seed in seeds):
        raise ValueError(f"seeds run from {min(seeds)} to {max(seeds)}; they must lie in [0, 2**63)")
    last: dict[tuple[int, ...], int] = {}
    for seed, prompt in sorted(zip(seeds, map(tuple, prompts), strict=True)):
        if prompt in last and seed - last[prompt] < count:
            raise ValueError(
                f"seeds {last[prompt]} and {seed} of the same prompt are closer than count={count},"
                " so both would give the same completion; space them by count"
            )
        last[prompt] = seed
