"""Where each value of a run's config came from: a file under configs/, or the command line."""

from typing import Any

from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from isentropic.config.build import leaves
from isentropic.config.loader import ConfigLoader

COMMAND_LINE = "command line"


def sources(loader: ConfigLoader, name: str, overrides: list[str]) -> dict[str, str]:
    """Dotted key of each value → the file that set it last, in Hydra's own order of merging, or "command line"."""
    origin: dict[str, str] = {}
    defaults = loader.compute_defaults_list(name, overrides, RunMode.RUN)
    _, repository = loader._parse_overrides_and_create_caching_repo(name, overrides)  # pyright: ignore[reportPrivateUsage]
    loader.choose(defaults.defaults)
    for default in defaults.defaults:
        if default.config_path is None or default.config_path.startswith("hydra/"):
            continue
        # No public call gives one file under its package; composing it anew would take in its defaults list too.
        config = loader._load_single_config(default, repository).config  # pyright: ignore[reportPrivateUsage]
        for key, _ in leaves(OmegaConf.to_container(config)):
            origin[key] = f"{str(default.config_path).removesuffix('.yaml')}.yaml"
    for override in defaults.config_overrides:
        for key, _ in leaves(override.value(), override.key_or_group):
            origin[key] = COMMAND_LINE
    return origin


def tree(cfg: DictConfig, origin: dict[str, str]) -> str:
    """One line per value: dotted key, value, origin, and the interpolation it was written as."""
    resolved = dict(leaves(OmegaConf.to_container(cfg, resolve=True)))
    written = dict(leaves(OmegaConf.to_container(cfg)))
    rows = [(f"{key} = {value}", _origin(key, origin), _written(key, written)) for key, value in resolved.items()]
    width = min(max((len(row[0]) for row in rows), default=0), 72)
    return "\n".join(f"{text:<{width}}  # {place}{how}" for text, place, how in rows) + "\n"


def _origin(key: str, origin: dict[str, str]) -> str:
    """Of the value itself, or of the interpolation above it that brought it in."""
    while key not in origin and "." in key:
        key = key.rpartition(".")[0]
    return origin.get(key, "unknown")


def _written(key: str, written: dict[str, Any]) -> str:
    while key not in written and "." in key:
        key = key.rpartition(".")[0]
    value = written.get(key)
    return f": {value}" if isinstance(value, str) and "${" in value else ""
