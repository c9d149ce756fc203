"""From the command line to a checked config. Imports neither torch nor lightning."""

import math
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import setup_globals
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from isentropic.config.bounds import check_bounds
from isentropic.config.build import (
    BadInput,
    bad_input,
    by_source,
    check,
    check_chosen,
    does_not_exist,
    is_dict,
    is_list,
    leaves,
    listed,
    plain,
)
from isentropic.config.early import check_sizes, check_trainer
from isentropic.config.loader import ConfigLoader
from isentropic.config.nearest import nearest
from isentropic.config.own import CONFIGS, own_configs, refuse_same
from isentropic.config.parsed import copies
from isentropic.runs import renamed

PACKAGE = Path(__file__).parents[1]
CHECKOUT = Path(__file__).parents[3]
OF_PARTS = "reward", "callbacks", "logger"  # groups of named parts
ROOT = CHECKOUT if (CHECKOUT / "pyproject.toml").is_file() else Path.cwd()  # where logs, data and .env lie
SHORT, MOST, NUMBERS = 20, 100, 5  # values that are checked of a sweep's axis, each in some job: a fifth of a second
WHOLE = ("debug", "experiment", "local")  # groups of files that set things anywhere
NEEDED = ("algorithm", "policy", "rollout", "sampler", "task", "trainer")  # where a config has them
os.environ.setdefault("PROJECT_ROOT", str(ROOT))
os.environ["ISENTROPIC_PACKAGE"] = str(PACKAGE)


def product(*factors: int) -> int:
    return math.prod(factors)


def total(*parts: int) -> int:
    return sum(parts)


def quotient(whole: int, parts: int) -> int:
    if parts < 1 or whole % parts:
        raise ValueError(f"{whole} cannot be divided into {parts} equal parts")
    return whole // parts


def share(part: float, whole: int) -> int:
    return max(1, round(part * whole))


def unset(variable: str) -> bool:
    return variable not in os.environ


OmegaConf.register_new_resolver("product", product, replace=True)
OmegaConf.register_new_resolver("total", total, replace=True)
OmegaConf.register_new_resolver("quotient", quotient, replace=True)
OmegaConf.register_new_resolver("share", share, replace=True)
OmegaConf.register_new_resolver("unset", unset, replace=True)


def loader_of(configs: Path, extra: str | None = None) -> ConfigLoader:
    """As hydra.main makes it. `extra` is the folder of --config-dir. Raises BadInput for a name that is taken."""
    setup_globals()
    path = create_config_search_path(str(configs))
    if extra is not None:
        with bad_input("--config-dir"):
            refuse_same(Path(extra), [configs, *(own_configs().values() if configs == CONFIGS else ())])
        path.prepend("command-line", f"file://{os.path.abspath(extra)}", SearchPathQuery(provider="schema"))
    return ConfigLoader(path)


def check_jobs(loader: ConfigLoader, name: str, overrides: list[str], sweep: bool, parts: bool = True) -> DictConfig:
    """The config of the last job. `parts=False` stops at the composition, and so imports no part.

    Raises BadInput for the first key, option, value or setting of a part that cannot be, in any job of a sweep.
    """
    base = compose(loader, name, []) if parts else OmegaConf.create()
    for own in _jobs(overrides, loader) if sweep else [overrides]:
        cfg = compose(loader, name, own)
        if parts:
            _check_taken_away(own, base)
            _check_config(cfg, loader, base)
    return cfg  # pyright: ignore[reportPossiblyUnboundVariable]


def _jobs(overrides: list[str], loader: ConfigLoader) -> Iterator[list[str]]:
    """As few jobs as hold every value of every axis once, but for those of a long one."""
    try:
        parsed = OverridesParser.create(config_loader=loader).parse_overrides(overrides)
    except HydraException as error:
        raise BadInput(_explain(error, loader)) from error
    drawn = [o for o in parsed if not o.is_interval_sweep()]
    axes = [
        [f"{o.get_key_element()}={v}" for v in o.sweep_string_iterator()] if o.is_discrete_sweep() else [o.input_line]
        for o in drawn
    ]
    if empty := next((line for line, axis in zip((o.input_line for o in drawn), axes, strict=True) if not axis), None):
        raise BadInput(f"{empty} matches none of the options that there are")
    axes = [some(axis) for axis in axes]
    for i in range(max(map(len, axes), default=1)):
        yield [str(axis[i % len(axis)]) for axis in axes]


def some(axis: list[str]) -> list[str]:
    """All of a short axis; of a long one the ends and what lies evenly between, as what cannot be is mostly an end."""
    if len(axis) <= SHORT:
        return axis
    count = MOST
    with suppress(ValueError):
        axis, count = sorted(axis, key=lambda line: float(line.partition("=")[2])), NUMBERS
    chosen = {round(i * (len(axis) - 1) / (count - 1)) for i in range(count)}
    return [axis[i] for i in sorted(chosen)]


def compose(loader: ConfigLoader, name: str, overrides: list[str]) -> DictConfig:
    """As Hydra does, its own node included. Raises BadInput with what exists in place of what was asked for."""
    try:
        return loader.load_configuration(name, overrides, RunMode.RUN)
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError, RecursionError) as error:
        if str(error).startswith("Config group override must be"):
            unnamed = (re.fullmatch(r"\+?([\w/]+)(?:@[\w.]+)?=(null|[\d.]+|true|false)", line) for line in overrides)
            for found in unnamed:
                if found and loader.repository.group_exists(found[1]):
                    raise BadInput(f"{found[0]} names no option; choose one, or leave it out") from error
        key = re.match(r"Could not override '(.+?)'", str(error))
        if key is None:
            raise BadInput(_explain(error, loader)) from error
        parsed = [] if "/" in key[1] else OverridesParser.create().parse_overrides(overrides)
        others = [o for o in parsed if o.key_or_group != key[1].partition("@")[0]]
        chosen = [str(o.input_line) for o in others if loader.repository.group_exists(o.key_or_group)]
        raise BadInput(_unknown(key[1], compose(loader, name, chosen), loader)) from error


def _explain(error: Exception, loader: ConfigLoader) -> str:
    if merged := re.match(r"Error merging override (\S+?)=", str(error)):
        line = str(error).splitlines()[0].removeprefix("Error merging override ")
        return f"{line} cannot be set, as {merged[1]} has keys of its own; set one of these"
    if isinstance(error, OverrideParseException):
        return f"{error.override} cannot be read; write key=value, and put quotes around values with special characters"
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, option = error.missing_cfg_file.rpartition("/")
        if not group:
            there = [one for one in loader.get_group_options("") if not one.startswith("_")]
            return f"--config-name={option} does not exist; there are {listed(sorted(there))}"
        if answer := renamed.answer(f"{group}={option}"):
            return answer
        options = error.options or loader.get_group_options(group)  # Hydra lists none where one of several is missing
        closest = nearest(option, options)
        hint = f"; did you mean {closest}?" if closest else ""
        return f"{group}={option} does not exist: {group} can be {listed(sorted(options), 'or')}{hint}"
    if several := re.match(r"Ambiguous value for argument '(.+?)=(.+?)'", str(error)):
        key, value = several.groups()
        return (
            f"{key}={value} lists several values, each for a job of its own; add -m for such a sweep, or write one "
            f'value with commas as "{key}=\'{value}\'" and a list as "{key}=[{value}]"'
        )
    if isinstance(error, RecursionError):
        return "the defaults of a config lead back to itself, so it would never be whole"
    gone = re.match(r"Could not delete from config. '(.+?)' does not exist", str(error))
    return (gone and renamed.answer(gone[1])) or " ".join(f"{error} {error.__cause__ or ''}".split())


def _unknown(key: str, cfg: DictConfig, loader: ConfigLoader) -> str:
    if "/" in key:
        groups = [group for group in cfg.hydra.runtime.choices if not group.startswith("hydra/")]
        return does_not_exist(key, key, groups, "", "the groups")
    if answer := renamed.answer(key):
        return answer
    node, where = OmegaConf.to_container(cfg), ""
    for name in key.split("."):
        if not is_dict(node):
            return f"{key} does not exist: {where} is {node}, which has no keys"
        if name not in node:
            group = where.replace(".", "/")
            if where and name in loader.get_group_options(group):
                return f"{key} cannot be set, as {name} is not chosen; add it to {group}=[...]"
            return does_not_exist(key, name, _shown(node), where)
        node, where = node[name], f"{where}.{name}".strip(".")
    return f"{key} cannot be set"


def _shown(node: dict[Any, Any]) -> list[str]:
    return [str(name) for name in node if name != "hydra" and not str(name).startswith("_")]


def _check_config(cfg: DictConfig, loader: ConfigLoader, base: DictConfig) -> None:
    with read_write(cfg):
        cfg.hydra.runtime.output_dir = "."  # known only once Hydra runs
    HydraConfig.instance().set_config(cfg)
    settings = plain(_without_hydra(cfg))
    HydraConfig.instance().cfg = None
    for key, _ in leaves(settings):
        if answer := renamed.answer(key):
            raise BadInput(answer)
    _check_top(settings, base, loader)
    if not is_list(settings.get("tags", [])):
        raise BadInput(f"tags={settings['tags']} is not a list; write tags=[{settings['tags']}]")
    if "rollout" in settings and is_dict(settings.get("trainer")):
        check_trainer(settings["trainer"])
    check_chosen(settings, OF_PARTS)
    check_sizes(settings)
    try:
        check(settings, look=by_source)
        check_bounds(settings)
    except BadInput as error:
        raise _where_it_is_set(error, cfg) from error


def _without_hydra(cfg: DictConfig) -> DictConfig:
    """What a job is given, of a copy."""
    own = copies(cfg)()
    with read_write(own), open_dict(own):
        own.pop("hydra", None)
    return own


def _check_taken_away(overrides: list[str], base: DictConfig) -> None:
    """Raises BadInput for a group that every run chooses from."""
    for line in overrides:
        group = line.removeprefix("~").partition("=")[0]
        if line.startswith("~") and group in base.hydra.runtime.choices and group.partition("/")[0] in NEEDED:
            raise BadInput(f"{group} is taken away, and nothing runs without it; choose one by {group}=...")


def _check_top(settings: dict[str, Any], base: DictConfig, loader: ConfigLoader) -> None:
    """What stands at the top of a config, of which `base` is that without any setting."""
    plainly = cast(dict[str, Any], OmegaConf.to_container(base))
    known = _shown(plainly)
    for key in settings:
        if key in WHOLE and is_dict(settings[key]):
            raise BadInput(
                f"a file of {key} lacks `# @package _global_` in its first line, without which what it sets is kept "
                f"below {key} ({', '.join(settings[key])}) and holds nowhere"
            )
        if key not in known and not loader.repository.group_exists(key):
            raise BadInput(does_not_exist(key, key, known, ""))
    for key in (key for key in known if is_dict(plainly[key])):
        if not is_dict(settings.get(key, {})) and not (settings[key] is None and key not in NEEDED):
            raise BadInput(f"{key}={settings[key]} cannot be, as {key} has keys of its own; set one of these")


def _where_it_is_set(error: BadInput, cfg: DictConfig) -> BadInput:
    """Names the key that a wrong value comes from, where the part that refuses it reads it from another."""
    key, _, said = str(error).partition("=")
    parent, _, name = key.rpartition(".")
    node = OmegaConf.select(cfg, parent) if re.fullmatch(r"[\w.]+", key) and parent and said else None
    if isinstance(node, DictConfig) and OmegaConf.is_interpolation(node, name):
        raw = str(cast(dict[str, Any], OmegaConf.to_container(node))[name])
        if read := re.fullmatch(r"\$\{([\w.]+)\}", raw):
            return BadInput(f"{read[1]}={said}, which {key} reads")
    return error
