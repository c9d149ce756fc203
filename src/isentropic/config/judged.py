"""`eval` knows the run that it judges: what that run was told comes first, and the command line has the last word."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from omegaconf import DictConfig

from isentropic.config.build import leaves, plain
from isentropic.runs import files, renamed
from isentropic.runs.settings import flat
from isentropic.runs.status import read_status

OWN = ("hydra", "paths", "callbacks", "logger", "tags", "print_config", "ckpt_path", "debug", "local", "trainer")
PROMPT = ("chat", "system", "chat_template", "template_arguments", "examples")
TOLD = (
    "seed", "task", "evaluation", "policy.model", "rollout.decoding", "rollout.evaluation",
    *(f"rollout.{name}" for name in PROMPT),
)  # fmt: skip
NOT_TOLD = "dtype", "threads", "device", "workers", "timeout", "memory", "batch"  # last words: of the machine at hand


def with_run(arguments: Sequence[str]) -> list[str]:
    """The arguments, after those of the run that `ckpt_path=` is of: its folder, or a checkpoint in it."""
    path = next((one.partition("=")[2] for one in reversed(arguments) if one.startswith("ckpt_path=")), "")
    run = run_of(Path(path.strip("'\""))) if path else None
    if run is None:
        return list(arguments)
    status, own = read_status(run), {key_of(one) for one in arguments}
    told = [now(one) for one in (status.overrides if status else ()) if key_of(one).split(".")[0] not in OWN]
    told += [] if "task" in own else [one for one in as_before(run) if key_of(one) not in {key_of(t) for t in told}]
    found = [*(one for one in told if key_of(one) not in own), *arguments]
    if Path(path.strip("'\"")) == run:
        found = [one for one in found if key_of(one) != "ckpt_path"] + [f"ckpt_path={run / files.LAST_CHECKPOINT}"]
    return found


def as_before(run: Path) -> list[str]:
    """Of a run from when test problems and their draws followed its seed: what gives it its own again."""
    file = run / files.CONFIG
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    theirs = flat(text) if text else {}
    missing = [(key, seed) for key, seed in renamed.FOLLOWED.items() if seed in theirs and key not in theirs]
    ours = str(theirs.get("task._target_", "")).startswith("isentropic.task.")  # others may have no such key
    return [f"{key}={theirs[seed]}" for key, seed in missing if ours or not key.startswith("task.")]


def run_of(path: Path) -> Path | None:
    """The run folder that a path is or lies in; None where there is none."""
    return next((one for one in (path, *path.parents[:2]) if (one / files.STATUS).is_file()), None)


def key_of(override: str) -> str:
    """`+trainer/cluster=auto` is of trainer.cluster."""
    match = re.match(r"[+~]*([\w./@-]+)", override)
    return match[1].partition("@")[0].replace("/", ".") if match else ""


def now(override: str) -> str:
    """An override of before, under its key of today."""
    key, equals, value = override.partition("=")
    bare = key.lstrip("+~")
    return f"{key[: len(key) - len(bare)]}{renamed.now(bare) or bare}{equals}{value}"


def differences(cfg: DictConfig) -> Iterator[str]:
    """What decides a score and is not as the run that is judged had it, one line each."""
    run = run_of(Path(cfg.ckpt_path)) if cfg.ckpt_path else None
    if run is None or not (run / files.CONFIG).is_file():
        return
    theirs = flat((run / files.CONFIG).read_text(encoding="utf-8"))
    for section in TOLD:
        for key, value in leaves(plain(cfg, section), section):
            if key.endswith(NOT_TOLD) or isinstance(value, list) or key not in theirs:
                continue
            if value != theirs[key]:
                yield f"{key}={value}, and the run had {theirs[key]}"
