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
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from itertools import takewhile
from typing import Any, ClassVar

import hydra._internal.hydra
from hydra._internal import defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, IConfigRepository
from hydra._internal.defaults_list import create_defaults_list
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.default_element import GroupDefault, InputDefault, ResultDefault
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, flag_override, open_dict

from isentropic.config.nearest import nearest
from isentropic.config.parsed import Copies, Files, copies
from isentropic.config.repeated import PLACES, once

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
MOST, MERGED = 4, 32  # configs that a loader keeps as they were asked for, and that all keep before the command line


class ConfigLoader(ConfigLoaderImpl):
    """Raises ConfigCompositionException for `overrides` of a group or option that does not exist."""

    # with the files that they are of, by which they are told from others
    single: ClassVar[dict[tuple[str, str | None, bool], tuple[ConfigResult, Copies]]] = {}
    merged: ClassVar[dict[tuple[Any, ...], tuple[list[ConfigResult | None], Copies]]] = {}
    chosen: dict[str, str]  # group → option, of the config that is composed
    # recipe → the files that it is made of, and what `own_options` found in them
    own: ClassVar[dict[str, tuple[dict[str, ConfigResult | None], dict[str, str]]]] = {}

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.repository = Files(config_search_path)
        self.composed: dict[str, Copies] = {}  # of the last calls, as a command composes the same config five times

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        call = repr((config_name, overrides, run_mode, from_shell, validate_sweep_overrides))
        if copied := self.composed.pop(call, None):
            self.composed[call] = copied
            return copied()
        cfg = super().load_configuration(config_name, overrides, run_mode, from_shell, validate_sweep_overrides)
        self.composed[call] = copies(cfg)
        if len(self.composed) > MOST:
            del self.composed[next(iter(self.composed))]
        return cfg

    def _compose_config_from_defaults_list(self, defaults: list[ResultDefault], repo: IConfigRepository) -> DictConfig:
        self.choose(defaults)
        cfg = self.merge(defaults, repo)
        for key in LISTS:
            drop_unchosen(key, OmegaConf.select(cfg, key), repo)
        return cfg

    def merge(self, defaults: list[ResultDefault], repo: IConfigRepository) -> DictConfig:
        """Once for the same files."""
        files = [repo.load_config(str(default.config_path)) for default in defaults]
        own = [self.own_options(str(d.config_path), repo) for d in defaults if d.package == PACKAGE]
        places = [(d.config_path, d.package, d.primary, id(file)) for d, file in zip(defaults, files, strict=True)]
        key = repr(own), *places
        kept = self.merged.pop(key, None)
        if kept is None:
            cfg = self.merge_anew(defaults, files, repo)
            OmegaConf.clear_cache(cfg)  # which holds the time of this one
            kept = files, copies(cfg)
        self.merged[key] = kept
        if len(self.merged) > MERGED:
            del self.merged[next(iter(self.merged))]
        return kept[1]()

    def merge_anew(
        self, defaults: list[ResultDefault], files: list[ConfigResult | None], repo: IConfigRepository
    ) -> DictConfig:
        """All files at once, after those of Hydra, as a merge walks through the whole config."""
        first = len([*takewhile(lambda default: str(default.package).partition(".")[0] == "hydra", defaults)])
        plainly = all(file is not None and OmegaConf.get_type(file.config) is dict for file in files[first:])
        if 0 < first < len(defaults) and plainly:
            with suppress(Exception):  # Hydra merges them one by one then, and says in which file it is
                cfg = self.merge(defaults[:first], repo)
                with flag_override(cfg, "no_deepcopy_set_nodes", True):
                    cfg.merge_with(*(self._load_single_config(one, repo).config for one in defaults[first:]))
                return cfg
        return super()._compose_config_from_defaults_list(defaults, repo)

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
        self.chosen = options_of(defaults)

    def _load_single_config(self, default: ResultDefault, repo: IConfigRepository) -> ConfigResult:
        path = str(default.config_path)
        file = repo.load_config(path)
        key = path, default.package, default.primary
        if file is None or key not in self.single or self.single[key][0] is not file:
            alone = super()._load_single_config(default, repo)
            assert file is not None
            self.single[key] = file, copies(alone.config)
        loaded = copy(file)
        loaded.config = config = self.single[key][1]()
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
        files, own = self.own.get(path, ({}, {}))
        if not files or any(repo.load_config(name) is not file for name, file in files.items()):
            alone = create_defaults_list(repo, path, overrides_list=[], prepend_hydra=False, skip_missing=False)
            options = options_of(alone.defaults).items()
            own = {group: option for group, option in options if group.startswith(f"{PACKAGE}/")}
            files = {name: repo.load_config(name) for name in {path, *(str(one.config_path) for one in alone.defaults)}}
            listed = [one for file in files.values() if file is not None for one in file.defaults_list or []]
            if not any(one.is_optional() for one in listed):  # a file that is missing today may be there tomorrow
                self.own[path] = files, own
        return own

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
for _place in PLACES:
    once(*_place)
# hydra.main and hydra.compose make theirs by this name
hydra._internal.hydra.ConfigLoaderImpl = ConfigLoader  # pyright: ignore[reportPrivateImportUsage, reportAttributeAccessIssue]
