"""Config files, parsed once for as long as they stay as they are, and copies of what was made of them."""

import os
import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from functools import cache, partial
from typing import Any, ClassVar

from hydra._internal.config_repository import ConfigRepository
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.object_type import ObjectType
from hydra.errors import ConfigCompositionException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import Container, DictConfig

Copies = Callable[[], Any]


class Files(ConfigRepository):
    """Parses a file again only where it has changed: a config is made of sixty files, and a sweep of many configs.

    What it gives must stay as it is.
    """

    read: ClassVar[dict[tuple[str, str, str], tuple[tuple[Any, ...], ConfigResult]]] = {}
    hydra: ClassVar[dict[str, ConfigSource]] = {}  # Hydra's own files, which stay as they are

    def __deepcopy__(self, memo: dict[int, Any]) -> "Files":
        return copy(self)  # Hydra makes one for each config, to give it other sources at most

    def initialize_sources(self, config_search_path: ConfigSearchPath) -> None:
        super().initialize_sources(config_search_path)
        for index, source in enumerate(self.sources):
            if source.provider == "hydra":
                self.sources[index] = self.hydra.setdefault(source.full_path(), lasting(source))
            elif source.scheme() == "file":
                self.sources[index] = Folder(source.provider, source.path)

    def load_config(self, config_path: str) -> ConfigResult | None:
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        stamp = None if source is None else stamp_of(source, config_path)
        if source is None or stamp is None:
            return super().load_config(config_path)
        key = source.provider, source.full_path(), source._normalize_file_name(config_path)
        if key not in self.read or self.read[key][0] != stamp:
            loaded = self.whole(config_path)
            if loaded is None:
                return None
            self.read[key] = stamp, loaded
        return self.read[key][1]

    def whole(self, config_path: str) -> ConfigResult | None:
        """Raises ConfigCompositionException for a file that is no YAML of keys and values in UTF-8."""
        name = f"{config_path.removesuffix('.yaml')}.yaml"
        try:
            loaded = super().load_config(config_path)
        except UnicodeDecodeError as error:
            raise ConfigCompositionException(f"{name} is not UTF-8 from its byte {error.start} on") from None
        if loaded is not None and not isinstance(loaded.config, DictConfig):
            raise ConfigCompositionException(f"{name} holds a list, and must hold keys with values")
        return loaded


class Folder(FileConfigSource):
    """Follows the links of its path once, and Hydra for each file that it asks for: a tenth of a config's time."""

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider, path)
        self.place = os.path.realpath(self.path)

    def is_group(self, config_path: str) -> bool:
        return os.path.isdir(os.path.join(self.place, config_path))

    def is_config(self, config_path: str) -> bool:
        return os.path.isfile(os.path.join(self.place, self._normalize_file_name(config_path)))


def lasting(source: ConfigSource) -> ConfigSource:
    """Looks once for each file and folder."""
    for asked in ("is_config", "is_group"):
        setattr(source, asked, cache(getattr(source, asked)))
    return source


def stamp_of(source: ConfigSource, config_path: str) -> tuple[Any, ...] | None:
    """What differs where the file does, or None where nothing tells."""
    name = source._normalize_file_name(config_path)
    if source.scheme() == "file":
        found = os.stat(os.path.join(source.path, name))
        return found.st_mtime_ns, found.st_size
    if source.scheme() == "structured":
        return (ConfigStore.instance()._load(name),)
    return () if source.provider == "hydra" else None


def copies(cfg: Container) -> Copies:
    """Makes copies of the config as it is here: six times as fast as deepcopy, where its classes can be imported."""
    try:
        return partial(pickle.loads, pickle.dumps(cfg))
    except (pickle.PicklingError, AttributeError, TypeError):
        return partial(deepcopy, deepcopy(cfg))
