"""What an evaluation would take: the size of its subject and of its sets, without weights or files."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from isentropic.config.build import BadInput, bad_input, build
from isentropic.config.compose import CONFIGS, compose, loader_of
from isentropic.config.exam_sets import questions_of, tasks_of
from isentropic.config.judged import run_of
from isentropic.runs import files
from isentropic.runs.settings import flat
from isentropic.runs.subject import SERVER, check_there, is_path

if TYPE_CHECKING:
    from isentropic.evaluation.protocol import Protocol
    from isentropic.planning.architecture import Architecture
    from isentropic.planning.evaluation import Asked as Sized


def dry_run(cfg: DictConfig, protocol: "Protocol") -> list[str]:
    """What each set would take, on one card or as many as the model needs."""
    from isentropic.planning.evaluation import hours, ranks_for, table

    asked, said = counted(cfg, protocol)
    if not asked:
        raise BadInput(said[0])
    card, lengths = build(cfg, "card"), build(cfg, "lengths")
    with bad_input():
        model = architecture_of(cfg)
        lines = table(asked, hours(model, card, lengths, asked))
    return [*said, f"{cfg.subject} on {ranks_for(model, card)} x {card.name}", *lines]


def architecture_of(cfg: DictConfig) -> "Architecture":
    from isentropic.planning.architecture import architecture

    model = model_of(str(cfg.subject), cfg.server.tokenizer)
    return architecture(model, cfg.architectures, "subject")


def check_planned(told: Mapping[str, str]) -> None:
    """Raises BadInput for a subject of no known size, before the rest is composed and anything slow is imported."""
    places = [f"{key}={told[key]}" for key in told if key == "architectures" or key.startswith("paths.")]
    cfg = compose(loader_of(CONFIGS), "judge", [*places, "paths.output=."])
    cfg.subject, cfg.server.tokenizer = told["subject"], told.get("server.tokenizer")
    with bad_input():
        model = model_of(str(cfg.subject), cfg.server.tokenizer)
        if not Path(model).expanduser().is_dir() and model not in OmegaConf.load(cfg.architectures):
            architecture_of(cfg)  # by the hub


def model_of(subject: str, tokenizer: str | None) -> str:
    """The folder or name of the model that a subject is: of a run, what it has started from.

    Raises ValueError for a place where nothing is, and for a server whose model's folder is not given.
    """
    if subject.startswith(SERVER):
        if not tokenizer:
            raise ValueError("a dry run asks no server; server.tokenizer=... must be the folder of the model it serves")
        return tokenizer
    path = check_there(subject) if is_path(subject) else Path(subject).expanduser()
    if not path.exists() or (path / "config.json").is_file():
        return subject
    run = run_of(path)
    started = flat((run / files.CONFIG).read_text(encoding="utf-8")).get("policy.model.path") if run else None
    if not started:
        raise ValueError(f"subject={subject} is neither a model's folder, which has a config.json, nor of a run's")
    return str(started)


def counted(cfg: DictConfig, protocol: "Protocol") -> "tuple[list[Sized], list[str]]":
    """Sets by their size, as read or as published, and what is to be said of those that were not read."""
    from isentropic.evaluation.protocol import parsed
    from isentropic.planning.evaluation import Asked as Sized

    asked: list[Sized] = []
    said: list[str] = []
    unread: list[str] = []
    with ExitStack() as stack:
        tasks = tasks_of(cfg, stack)
        for exam in protocol.chosen().values():
            for name in exam.sets:
                base = parsed(name)[0]
                only = replace(protocol, exams={"one": replace(exam, sets=[name])}, only=None)
                try:
                    number = published(cfg, name)
                    if number is not None:
                        unread.append(base)
                        whole = name if number < int(cfg.sets[base].problems) else base
                    else:
                        ((whole, questions),) = questions_of(cfg, only, tasks).items()
                        number = len(questions)
                except BadInput as error:
                    said.append(f"{base} is left out: {error}")
                    continue
                asked.append(Sized(whole, number, exam.count, exam.decoding.max_tokens))
    if unread:
        others = [parsed(one.name)[0] for one in asked if parsed(one.name)[0] not in unread]
        leaves = f", and 'evaluation.protocol.only=[{','.join(others)}]' leaves them out" if others else ""
        said.append(
            f"{', '.join(unread)}: counted as published, as paths.data has no file; answers would be asked of the sets "
            f"on the hub{leaves}"
        )
    return asked, said


def published(cfg: DictConfig, name: str) -> int | None:
    """Problems of a set that no file here holds, where its settings say how many. Raises BadInput for too many."""
    from isentropic.evaluation.protocol import parsed
    from isentropic.task.problem_set import ProblemSet

    base, number = parsed(name)
    if base not in cfg.sets:
        return None
    with bad_input():
        rows: object = build(cfg, f"sets.{base}")
        whole = rows.published() if isinstance(rows, ProblemSet) else None
        if whole is not None and number is not None and number > whole:
            raise ValueError(f"{name} asks for {number} problems, and {base} has {whole}")
    return whole if whole is None or number is None else number
