"""What an evaluation by a protocol is told: its sets, and what the protocol takes from a run or an experiment."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from isentropic.config.build import BadInput, bad_input, build, is_dict, is_list, leaves, listed, plain
from isentropic.config.compose import compose
from isentropic.config.judged import differences, key_of, run_of, with_run
from isentropic.config.loader import ConfigLoader

NAME = "judge"
WITHIN = "evaluation.protocol."
FREE = ("system", "split", "chat", "chat_template", "template_arguments", "examples", "graders")  # have a value anyway
PROMPT = ("chat", "system", "chat_template", "template_arguments", "examples")
LATE = "training.decoding."  # of what a training lends, which is not there before
HINT = "evaluation.json"  # in a model's folder: the experiment whose settings are its own
TAKEN = re.compile(r"\$\{training\.(\w+)\}")


@dataclass(frozen=True)
class Lent:
    """What a training has of a protocol's settings. `said` are its differences from itself, a line each."""

    training: Mapping[str, Any] = field(default_factory=dict[str, Any])
    sets: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tasks: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rule: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seed: int | None = None
    said: Sequence[str] = ()
    is_run: bool = False  # and not an experiment that is yet to be run


def experiment_of(subject: str) -> str | None:
    """What a model's folder says of itself, as the one that ships with the package does."""
    file = Path(subject).expanduser() / HINT
    if not file.is_file():
        return None
    with bad_input(str(file)):
        found = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(found, Mapping) or not isinstance(cast(Mapping[str, Any], found).get("experiment"), str):
            raise ValueError('it must be as {"experiment": "quickstart"}')
        return str(found["experiment"])


def lent_by(subject: str, experiment: str | None, loader: ConfigLoader) -> Lent:
    """By the run that the subject is of, or by the experiment. Raises BadInput for an experiment that is not there."""
    run = run_of(Path(subject)) if Path(subject).exists() else None
    if experiment is None and run is not None:
        cfg = compose(loader, "eval", [*with_run([f"ckpt_path={subject}"]), "paths.output=."])
        return replace(lent(cfg, list(differences(cfg))), is_run=True)
    return (
        Lent() if experiment is None else lent(compose(loader, "train", [f"experiment={experiment}", "paths.output=."]))
    )


def lent(cfg: DictConfig, said: Sequence[str] = ()) -> Lent:
    task, rollout = plain(cfg, "task"), plain(cfg, "rollout")
    evaluation = rollout["evaluation"]
    sets = task.get("test") if is_dict(task.get("test")) and evaluation["split"] == "test" else None
    choice = str(cfg.hydra.runtime.choices["task"])
    number = evaluation["problems"]
    training = {name: rollout[name] for name in PROMPT}
    training |= {"template": task.get("template") if sets else None, "max_tokens": rollout["decoding"]["max_tokens"]}
    training |= {"split": evaluation["split"], "count": evaluation["count"], "decoding": evaluation["decoding"]}
    training["sets"] = list(sets) if sets else [choice if number is None else f"{choice}[{number}]"]
    rule = {
        name: task[name] for name in ("marker", "strictness", "workers", "timeout", "memory", "cage") if name in task
    }
    return Lent(training, sets or {}, {} if sets else {choice: task}, rule if sets else {}, int(cfg.seed), said)


def judged(loader: ConfigLoader, arguments: Sequence[str], found: Lent) -> DictConfig:
    """The whole config, with the sets that the protocol names. Raises BadInput for what is missing or is not there."""
    late = [one for one in arguments if key_of(one).startswith(LATE)]
    arguments = [one for one in arguments if one not in late]
    chosen = [one for one in arguments if key_of(one).split(".")[0] not in ("sets", "tasks")]
    first = with_lent(compose(loader, NAME, [*chosen, "paths.output=."]), found, arguments, late=late)
    check_taken(first)
    names = dict.fromkeys(bases_of(first))
    own, tasks = loader.get_group_options("task/set"), loader.get_group_options("task")
    for name in names:
        if name not in (*own, *tasks, *found.sets, *found.tasks) and not given(arguments, f"sets.{name}"):
            raise BadInput(f"the set {name} does not exist; there are {listed(sorted(own))}, and the tasks")
    of_group = [name for name in names if name in own and name not in found.tasks]
    of_tasks = [name for name in names if name in tasks and name not in own and name not in found.tasks]
    lines = [f"task/set@sets=[{','.join(of_group)}]", *(f"+task@tasks.{name}={name}" for name in of_tasks)]
    whole = compose(loader, NAME, [*lines, *arguments, "paths.output=."])
    return with_lent(whole, found, arguments, set(names), late)


def unlike(cfg: DictConfig, found: Lent) -> Iterator[str]:
    """What the protocol does in another way than the run itself, a line each."""
    if not found.is_run:
        return
    protocol, own = plain(cfg, "evaluation.protocol"), found.training
    for name in ("template", "chat", "system"):
        if protocol[name] != own[name]:
            yield f"{name}={protocol[name]!r}, and the run had {own[name]!r}"
    for key, exam in protocol["exams"].items():
        now, then = ({"count": part["count"], **part["decoding"]} for part in (exam, own))
        for name in now:
            if now[name] != then[name]:
                yield f"exams.{key}: {name}={now[name]}, and the run's evaluation had {then[name]}"
    if found.seed is not None and cfg.seed != found.seed:
        yield f"seed={cfg.seed}, and the run had {found.seed}"


def changes(loader: ConfigLoader, arguments: Sequence[str], cfg: DictConfig) -> Iterator[str]:
    """What the command line sets in another way than the protocol has it, a phrase each; sets may be left out."""
    keys = [key_of(one) for one in arguments if key_of(one).startswith(WITHIN) and key_of(one) != f"{WITHIN}only"]
    if not keys:
        return
    option = f"evaluation/protocol={cfg.hydra.runtime.choices['evaluation/protocol']}"
    raw = OmegaConf.to_container(compose(loader, NAME, [option, "paths.output=."]).evaluation.protocol)
    before, now = dict(leaves(raw, WITHIN[:-1])), dict(leaves(plain(cfg, WITHIN[:-1]), WITHIN[:-1]))
    for key, value in now.items():
        if any(key == one or key.startswith(f"{one}.") for one in keys) and value != before.get(key):
            yield f"{key.removeprefix(WITHIN)}={value}, which was {before.get(key)}"


def given(arguments: Sequence[str], key: str) -> bool:
    return any(key_of(one) == key or key_of(one).startswith(f"{key}.") for one in arguments)


def with_lent(
    cfg: DictConfig,
    found: Lent,
    arguments: Sequence[str],
    names: set[str] | None = None,
    late: Sequence[str] = (),  # arguments within what is lent
) -> DictConfig:
    """What the command line does not set, it has from the training."""
    OmegaConf.set_struct(cfg, False)
    for section in ("training", "sets", "tasks", "rule"):
        for name, value in getattr(found, section).items():
            key = f"{section}.{name}"
            unasked = section in ("sets", "tasks") and names is not None and name not in names
            if not given(arguments, key) and not unasked:
                OmegaConf.update(cfg, key, value, merge=False, force_add=True)
    if found.seed is not None and not given(arguments, "seed"):
        cfg.seed = found.seed
    for one in OverridesParser.create().parse_overrides([*late]):
        if OmegaConf.select(cfg, one.key_or_group) is None:
            raise BadInput(f"{one.key_or_group} does not exist: no experiment and no run lends a decoding with it")
        OmegaConf.update(cfg, one.key_or_group, one.value())
    return cfg


def check_taken(cfg: DictConfig) -> None:
    """Raises BadInput where the protocol takes what no training lends."""
    protocol = OmegaConf.select(cfg, "evaluation.protocol")
    if protocol is None:
        raise BadInput("evaluation/protocol=null judges by nothing; take one, or own for the run's own settings")
    for _, value in leaves(OmegaConf.to_container(protocol)):
        for text in value if is_list(value) else [value]:
            for name in TAKEN.findall(text) if isinstance(text, str) else ():
                lends = cfg.training.sets is not None
                if cfg.training[name] is None and name not in FREE and not (name == "template" and lends):
                    raise BadInput(
                        f"evaluation/protocol={protocol.name} takes {name} from a training, and there is none; give "
                        f"experiment=NAME, a run's folder as subject, or training.{name}=..."
                    )


def bases_of(cfg: DictConfig) -> Iterator[str]:
    """The sets' own names, of those that are asked."""
    from isentropic.evaluation.protocol import parsed

    protocol = build(cfg, "evaluation.protocol")
    with bad_input("evaluation.protocol"):
        for exam in protocol.chosen().values():
            yield from (parsed(name)[0] for name in exam.sets)
