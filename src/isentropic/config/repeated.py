"""What Hydra and OmegaConf work out again for each config, though it stays the same.

A fifth of the time of a config went into reading the texts of its interpolations, and the versions of Hydra.
"""

from functools import lru_cache
from types import ModuleType
from typing import Any

import hydra.version
import omegaconf._utils  # pyright: ignore[reportPrivateUsage]
import omegaconf.base

MOST = 4096  # texts of interpolations; a config has some hundred
PLACES = (
    (omegaconf.base, "parse"),  # the tree of an interpolation, which whoever resolves it only reads
    (omegaconf._utils, "parse"),  # pyright: ignore[reportPrivateUsage]
    (hydra.version, "_get_version"),  # of a text, as Hydra asks at each place whether it is to be as another version
)


def once(module: ModuleType, name: str) -> None:
    """From then on, for the same arguments. A library without this function stays as it is."""
    function: Any = getattr(module, name, None)
    if function is not None and not hasattr(function, "cache_info"):
        setattr(module, name, lru_cache(MOST)(function))
