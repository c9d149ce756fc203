"""What a sweep and its jobs are called: the same for the same command, so that it finds what it did before."""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf

LONGEST = 120  # characters, of the 255 that file systems take


FIXED: list[str] = []  # what all jobs of this process's sweep share


def name_sweep(overrides: Sequence[str]) -> None:
    """Makes `${sweep_name:}` and `${job_name:...}` in a config speak of this command line."""
    FIXED[:], swept = apart(overrides)
    name = sweep_name(FIXED, swept)
    OmegaConf.register_new_resolver("sweep_name", lambda: name, replace=True)
    OmegaConf.register_new_resolver("job_name", lambda task: job_name([*map(str, task)], FIXED), replace=True)


def apart(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """What all jobs share, as Hydra hands it to each, and the keys of what varies. Hydra's own settings are neither."""
    try:
        parsed = [o for o in OverridesParser.create().parse_overrides(list(overrides)) if not of_hydra(o)]
    except HydraException:
        return [], []  # said elsewhere, with what would be right
    fixed = [f"{o.get_key_element()}={o.get_value_element_as_str()}" for o in parsed if not o.is_sweep_override()]
    return fixed, [o.get_key_element() for o in parsed if o.is_sweep_override()]


def of_hydra(override: Override) -> bool:
    return re.match(r"hydra\b", override.key_or_group) is not None


def sweep_name(fixed: Sequence[str], swept: Sequence[str]) -> str:
    """The experiment, what is set and what varies, in short, and a mark for all of it but the values that vary.

    So a sweep that is asked for more seeds finds those that it has.
    """
    words = [line.split("=", 1)[1] if line.startswith("experiment=") else short(line) for line in in_order(fixed)]
    slug = clean("_".join([*words, *map(short, in_order(swept))]))[:LONGEST].strip("_.-")
    exact = mark("\n".join([*sorted(set(fixed)), "", *sorted(set(swept))]))
    return f"{slug}_{exact}" if slug else exact


def job_name(task: Sequence[str], fixed: Sequence[str]) -> str:
    """What this job does not share with the others: `algorithm=grpo,seed=0`. Marked where that is not all of it."""
    own = in_order(line.lstrip("+") for line in task if line not in fixed)
    told = ",".join(map(readable, own)) or "job"
    name = clean(told)
    return name if name == told and len(name) <= LONGEST else f"{name[:LONGEST]}-{mark(','.join(own))}"


def in_order(lines: Iterable[str]) -> list[str]:
    """Whatever the order on the command line: the experiment first, and the seed last."""
    return sorted(
        lines, key=lambda line: (not line.startswith("experiment"), re.match(r"seed\b", line) is not None, line)
    )


def short(line: str) -> str:
    """`policy.optimization.lr=0.1` is `lr=0.1`."""
    key, equals, value = readable(line.lstrip("+")).partition("=")
    return key.rsplit(".", 1)[-1] + equals + value


def readable(line: str) -> str:
    """`algorithm/credit=[stapo,stare]` is `algorithm.credit=stapo+stare`: a comma stands between settings only."""
    key, equals, value = line.partition("=")
    return key.replace("/", ".") + equals + re.sub(r"[\[\]'\" ]", "", value).replace(",", "+")


def clean(text: str) -> str:
    """Without what shells and file systems take for more than a letter."""
    return re.sub(r"[^A-Za-z0-9=,.+_-]+", "-", text)


def mark(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:6]


def quoted(argument: str) -> str:
    """`ckpt_path=.../algorithm=grpo,seed=0/...` as Hydra can read it, where it is what is there on the disk."""
    key, equals, value = argument.partition("=")
    if not (equals and re.search("[=,]", value) and re.fullmatch(r"[\w.+/@]+", key) and Path(value).exists()):
        return argument
    return f"{key}={quote(value)}"


def quote(value: str) -> str:
    """As one value of an override."""
    return "'" + value.replace("'", "\\'") + "'"
