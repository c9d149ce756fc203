"""How YAML files become one config: as Hydra does it, with two rules more, which hold however a config is composed.

1. What an experiment sets for one option alone stands in its `overrides`, and holds where that option is chosen:

       overrides:                              # experiment/quickstart.yaml
         algorithm: {stare: {credit: {stare: {boost: 5.0}}}}
         algorithm/control: {gate: {target: 0.15}}

2. A part brings its own numbers: what a recipe sets for a step of the algorithm holds for the option that the recipe
   itself has there, and is left behind where another takes its place. Settings of a callback, metric, curator, credit
   rule or penalty that is not chosen are left behind too.

The command line has the last word over both.
"""

import inspect
import os
import warnings
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from typing import Any, ClassVar

import hydra._internal.hydra
from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository, IConfigRepository
from hydra._internal.defaults_list import create_defaults_list
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import GroupDefault, InputDefault, ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from isentropic.config.nearest import nearest

PACKAGE = "algorithm"  # of recipes, each a file that holds the steps' options and its numbers for them
LISTS = (
    "callbacks",
    "evaluation",
    "reward",
    "rollout.curation",
    "algorithm.credit",
    "algorithm.penalty",
)  # parts by name
KEY = "overrides"
LISTED = "_create_interpolation_map"
MOST = 4  # configs that are kept, at 10 ms for a copy where composing one takes 300


class Files(ConfigRepository):
    """Parses a file again only where it has changed: a config is made of sixty files, and a sweep of many configs.

    What it gives must stay as it is.
    """

    read: ClassVar[dict[tuple[str, str, str], tuple[tuple[int, int], ConfigResult]]] = {}  # which no copy copies

    def load_config(self, config_path: str) -> ConfigResult | None:
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        if source is None or (source.scheme() != "file" and source.provider != "hydra"):
            return super().load_config(config_path)
        name, stamp = source._normalize_file_name(config_path), (0, 0)  # Hydra's own stay as they are
        if source.scheme() == "file":
            found = os.stat(os.path.join(source.path, name))
            stamp = found.st_mtime_ns, found.st_size
        key = source.provider, source.path, name
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


class ConfigLoader(ConfigLoaderImpl):
    """Raises ConfigCompositionException for `overrides` of a group or option that does not exist."""

    chosen: dict[str, str]  # group → option, of the config that is composed
    own: dict[str, dict[str, str]]  # recipe → what `own_options` found for it

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.repository = Files(config_search_path)
        self.composed: dict[str, DictConfig] = {}  # of the last calls, as a command composes the same config five times

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        call = repr((config_name, overrides, run_mode, from_shell, validate_sweep_overrides))
        cfg = self.composed.pop(call, None)
        if cfg is None:
            cfg = super().load_configuration(config_name, overrides, run_mode, from_shell, validate_sweep_overrides)
        self.composed[call] = cfg
        if len(self.composed) > MOST:
            del self.composed[next(iter(self.composed))]
        return deepcopy(cfg)

    def _compose_config_from_defaults_list(self, defaults: list[ResultDefault], repo: IConfigRepository) -> DictConfig:
        self.choose(defaults)
        cfg = super()._compose_config_from_defaults_list(defaults, repo)
        for key in LISTS:
            drop_unchosen(key, OmegaConf.select(cfg, key), repo)
        return cfg

    def _process_config_searchpath(
        self, config_name: str | None, parsed_overrides: list[Override], repo: CachingConfigRepository
    ) -> None:
        with warnings.catch_warnings(action="ignore"):
            super()._process_config_searchpath(config_name, parsed_overrides, repo)
        for source in repo.get_sources():
            if source.provider.startswith("hydra.searchpath") and not source.available():
                raise ConfigCompositionException(f"hydra.searchpath holds {source.path}, which is no folder of configs")

    def choose(self, defaults: Sequence[ResultDefault]) -> None:
        """Before single files are loaded: what they set depends on what is chosen."""
        self.chosen, self.own = options_of(defaults), {}

    def _load_single_config(self, default: ResultDefault, repo: IConfigRepository) -> ConfigResult:
        path = str(default.config_path)
        loaded = super()._load_single_config(default, repo)
        if loaded is repo.load_config(path):  # not yet copied, as what goes below a key is
            loaded = copy(loaded)
            loaded.config = deepcopy(loaded.config)
        config = loaded.config
        if default.package == PACKAGE and isinstance(config, DictConfig):
            with open_dict(config):
                for recipe in (path, f"{PACKAGE}/{self.chosen[PACKAGE]}"):  # this file, and the one that is based on it
                    self.drop_swapped(config[PACKAGE], self.own_options(recipe, repo))
        if default.package in ("", None) and isinstance(config, DictConfig):
            with open_dict(config):
                if PACKAGE in config and isinstance(config[PACKAGE], DictConfig):
                    own = self.own_options(f"{PACKAGE}/{self.chosen[PACKAGE]}", repo) | taken_by(loaded)
                    self.drop_swapped(config[PACKAGE], own)
                self.apply(config, config.pop(KEY, {}), path, repo)
        return loaded

    def drop_swapped(self, recipe: DictConfig, own: Mapping[str, str]) -> None:
        """Numbers of a recipe for options that others have taken the place of."""
        for group, option in own.items():
            if self.chosen.get(group, option) != option:
                recipe.pop(group.partition("/")[2], None)

    def own_options(self, path: str, repo: IConfigRepository) -> dict[str, str]:
        """Of each step for which one option is chosen, the one that this recipe has by itself."""
        if path not in self.own:
            alone = create_defaults_list(repo, path, overrides_list=[], prepend_hydra=False, skip_missing=False)
            options = options_of(alone.defaults).items()
            self.own[path] = {group: option for group, option in options if group.startswith(f"{PACKAGE}/")}
        return self.own[path]

    def apply(self, config: DictConfig, overrides: Any, path: str, repo: IConfigRepository) -> None:
        for group, options in overrides.items():
            known = repo.get_group_options(group)
            if known and (group.replace("/", ".") in LISTS or group.count("/") > 1):
                part = f"{group.replace('/', '.')}.NAME"
                raise ConfigCompositionException(
                    f"{path}.yaml sets {KEY}.{group}, from which several are chosen; set {part} itself, which holds "
                    "where NAME is chosen"
                )
            for option, settings in options.items():
                if option not in known:
                    closest = nearest(option, known)
                    hint = f"; did you mean {closest}?" if closest else ""
                    raise ConfigCompositionException(
                        f"{path}.yaml sets {KEY}.{group}.{option}, and {group}={option} does not exist{hint}"
                    )
                if self.chosen.get(group) == option:
                    if group == PACKAGE:
                        self.drop_swapped(settings, self.own_options(f"{PACKAGE}/{option}", repo))
                    OmegaConf.update(config, group.replace("/", "."), settings, merge=True, force_add=True)


def options_of(defaults: Sequence[ResultDefault]) -> dict[str, str]:
    """Group → option; nothing for groups from which several are chosen. An option comes after those it is based on."""
    places = [(str(default.config_path).removesuffix(".yaml").rpartition("/"), default.package) for default in defaults]
    return {
        group: option
        for (group, _, option), package in places
        if package == group.replace("/", ".") and package not in LISTS
    }


def taken_by(experiment: ConfigResult) -> dict[str, str]:
    """Options of the algorithm's steps that an experiment itself puts in the place of a recipe's."""
    listed = experiment.defaults_list or []
    groups = {str(entry.group).lstrip("/"): str(entry.value) for entry in listed if isinstance(entry, GroupDefault)}
    return {group: option for group, option in groups.items() if group.startswith(f"{PACKAGE}/")}


def drop_unchosen(key: str, parts: Any, repo: IConfigRepository) -> None:
    """Settings without the part that they are of. Raises ConfigCompositionException where there is no such part."""
    if isinstance(parts, DictConfig):
        with open_dict(parts):
            for name, part in list(parts.items_ex(resolve=False)):
                if isinstance(part, DictConfig) and "_target_" not in part:
                    known = repo.get_group_options(key.replace(".", "/"))
                    if name not in known:
                        close = nearest(str(name), known)
                        hint = f"; did you mean {close}?" if close else ""
                        raise ConfigCompositionException(f"{key}.{name} is no part that can be chosen{hint}")
                    del parts[name]


def list_choices_where_read(module: Any) -> None:
    """Hydra lists what `${...}` in defaults are resolved by for each file, a third of the time of a config.

    From then on only for files with such defaults. A version without this function, or with another, stays as it is.
    """
    whole = getattr(module, LISTED, None)
    if whole is None or [*inspect.signature(whole).parameters] != ["overrides", "defaults_list", "self_added"]:
        return

    def where_read(overrides: Any, defaults_list: list[InputDefault], self_added: bool) -> DictConfig | None:
        return whole(overrides, defaults_list, self_added) if any(d.is_interpolation() for d in defaults_list) else None

    setattr(module, LISTED, where_read)


list_choices_where_read(defaults_list)
# hydra.main and hydra.compose make theirs by this name
hydra._internal.hydra.ConfigLoaderImpl = ConfigLoader  # pyright: ignore[reportPrivateImportUsage, reportAttributeAccessIssue]
