"""A model in, scores by a protocol out, without a trainer: what `isentropic eval subject=...` does."""

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from isentropic.config.build import BadInput, bad_input, build, by_source, check, plain
from isentropic.config.compose import CONFIGS, ROOT, loader_of
from isentropic.config.dry_run import check_planned, dry_run
from isentropic.config.early import check_hardware, has_gpu
from isentropic.config.exam import Lent, changes, experiment_of, given, judged, lent_by, unlike
from isentropic.config.exam_grading import check_markers, checked, graders_of, is_grading, told
from isentropic.config.exam_sets import asked_sets, data_of, questions_of, tasks_of
from isentropic.config.judged import key_of
from isentropic.config.names import quoted
from isentropic.runs.files import check_evaluation
from isentropic.runs.subject import GIVE, Subject, check_reached, named, subject_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from isentropic.evaluation.protocol import Protocol
    from isentropic.evaluation.questions import AskedSet
    from isentropic.sampler import Sampler
    from isentropic.sampler.vllm.completions import Served

FIRST_WORD = 30.0  # seconds that a server may take to say what it has
DECIDED = {"load_format": "auto", "sleep_level": 0, "logprobs": "none"}  # of engines that read their own weights
ON_GPU = ("sampler=vllm_gpu", "sampler.gpu_memory_utilization=0.9")


def judge(arguments: Sequence[str]) -> None:
    """Asks, judges, keeps and scores. Raises BadInput for what cannot be asked, before any engine starts."""
    told = {key_of(one): one.partition("=")[2].strip("'\"") for one in arguments}
    if not told.get("subject"):
        raise BadInput(f"subject has no value; {GIVE}")
    subject = looked_at(told)
    cfg, found = composed(arguments, told["subject"], told.get("experiment"))
    protocol: Protocol = build(cfg, "evaluation.protocol")
    changed = [f"  not as the protocol has it: {one}" for one in cfg.changed]
    print("\n".join([*protocol.sentences(), *changed, *found.said, *unlike(cfg, found)]), flush=True)
    if subject is None:
        print("\n".join(dry_run(cfg, protocol)), flush=True)
        return
    if protocol.turns > 1:
        raise BadInput(f"protocol {protocol.name} answers in {protocol.turns} turns, and evaluations have one")
    from isentropic.evaluation.sets import read

    with bad_input("against"):
        if cfg.against:
            read(Path(cfg.against))
    with ExitStack() as stack:
        run(cfg, protocol, subject, arguments, stack)


def looked_at(told: Mapping[str, str]) -> Subject | None:
    """What is judged, None in a dry run; and that the folder it is compared with is one. Nothing slow is imported."""
    if told.get("dry_run", "").lower() == "true":
        check_planned(told)
        return None
    with bad_input():
        subject = subject_of(told["subject"])
        refuse_unused(told, subject)
        if subject.url is not None:
            check_reached(subject.url, seconds_of(told.get("server.timeout", "")))
    with bad_input("against"):
        if told.get("against", "null") not in ("null", ""):
            check_evaluation(Path(told["against"]))
    return subject


def refuse_unused(told: Mapping[str, str], subject: Subject) -> None:
    """Raises ValueError for a setting of another kind of subject, which would be read by nobody."""
    for key, value in told.items():
        if key == "base" and value != "null" and subject.checkpoint is None:
            raise ValueError(f"base={value} is the model that a checkpoint started from, and {subject.name} is none")
        if key.startswith("server.") and subject.url is None:
            raise ValueError(f"{key}={value} is of a server, and {subject.name} is none")


def seconds_of(timeout: str) -> float:
    """That a server may take to be heard: what it may take for an answer, where that is less than FIRST_WORD."""
    return min(FIRST_WORD, float(timeout)) if re.fullmatch(r"\d+(\.\d+)?", timeout) else FIRST_WORD


def composed(arguments: Sequence[str], subject: str, experiment: str | None) -> tuple[DictConfig, Lent]:
    """All settings, checked by their types."""
    loader = loader_of(CONFIGS)
    found = lent_by(subject, experiment or experiment_of(subject), loader)
    own = [quoted(one) for one in arguments if key_of(one) not in ("subject", "experiment") and not is_grading(one)]
    if has_gpu() and not given(own, "sampler"):
        own = [*ON_GPU, *own]
    cfg = judged(loader, own, found)
    cfg.subject = subject
    if "max_model_len" in cfg.sampler and not given(own, "sampler.max_model_len"):
        cfg.sampler.max_model_len = 0  # that of an option is for training
    cfg.policy.model.path = subject
    parts = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key not in ("hydra", "card", "lengths")])
    check(plain(parts), look=by_source)
    for name, least in (("batch", 1), ("seed", 0)):
        if not isinstance(cfg[name], int) or isinstance(cfg[name], bool) or cfg[name] < least:
            raise BadInput(f"{name}={cfg[name]} is not a whole number of at least {least}")
    for name in ("dry_run", "allow_unjudgeable"):
        if not isinstance(cfg[name], bool):
            raise BadInput(f"{name}={cfg[name]} is neither true nor false")
    cfg.grading = [quoted(one) for one in arguments if is_grading(one)]  # no key of its own, but kept with the others
    cfg.changed = [*changes(loader, own, cfg), *cfg.grading]
    return cfg, found


def run(cfg: DictConfig, protocol: "Protocol", subject: Subject, arguments: Sequence[str], stack: ExitStack) -> None:
    from isentropic.evaluation.answers import write_problems
    from isentropic.evaluation.asking import Asking
    from isentropic.evaluation.context import check_known, fitted, needed
    from isentropic.evaluation.folder import begin, keep_versions
    from isentropic.runs.lock import locked

    served = served_by(cfg, subject)
    tasks = tasks_of(cfg, stack)
    sets = questions_of(cfg, protocol, tasks)
    model = model_of(cfg, subject, served)
    cfg.policy.model.path = str(model)
    tokenizer = tokenizer_of(cfg, subject, served, model)
    with bad_input():
        context, vocabulary = limits_of(cfg, model, served)
        asked, said = fitted(asked_sets(cfg, protocol, sets, tokenizer), context)
        check_known(asked, vocabulary)
        cfg.changed = [*cfg.changed, *said]
    graders = graders_of(protocol, asked, tasks, cfg.grading, stack)
    check_markers(tokenizer, graders)
    said += checked(asked, graders, cfg.allow_unjudgeable)
    sampler = sampler_of(cfg, subject, needed(asked), model)
    folder = Path(cfg.folder or Path(cfg.paths.logs) / "eval" / name_of(subject, protocol, served))
    weights = weights_of(model, served)
    data = data_of(cfg, asked)
    folder.mkdir(parents=True, exist_ok=True)
    with bad_input("folder"):
        stack.enter_context(locked(folder))
        begin(folder, settings_of(cfg, asked, weights, data))
        said += keep_versions(folder, weights, tokenizer, "the server's" if served else sampler.dtype, data, ROOT)
    answers = sum(one.answers for one in asked)
    said.append(f"sets: {', '.join(one.name for one in asked)}; {answers:,} answers; {folder}")
    print("\n".join(said), flush=True)
    write_problems(folder, [problem for one in asked for problem in one.asked])
    stack.callback(sampler.stop)
    with of_the_server(served):
        asking = Asking(folder, sampler, tokenizer, graders, int(cfg.seed), int(cfg.batch), tell)
        if any(asking.missing(asked)):
            sampler.start()
            asking.ask(asked)
    print("\n".join(told(folder, cfg, arguments)), flush=True)


def tell(line: str) -> None:
    print(line, flush=True)


@contextmanager
def of_the_server(served: "Served | None") -> Generator[None]:
    """A server that is lost midway is a sentence too; the same command goes on."""
    try:
        with bad_input():
            yield
    except RuntimeError as error:
        if served is None:
            raise
        raise BadInput(
            f"{' '.join(str(error).split())}; what was answered is kept, and the same command goes on"
        ) from error


def served_by(cfg: DictConfig, subject: Subject) -> "Served | None":
    """Raises BadInput where there is no such server, or it has another model."""
    if subject.url is None:
        return None
    from isentropic.sampler.vllm.completions import look
    from isentropic.sampler.vllm.http import Service

    try:
        with bad_input():
            return look(Service(subject.url, min(FIRST_WORD, cfg.server.timeout), None, None), cfg.server.model)
    except RuntimeError as error:
        raise BadInput(" ".join(str(error).split())) from error


def model_of(cfg: DictConfig, subject: Subject, served: "Served | None") -> Path:
    """The folder of the model, or of a server's tokenizer and config."""
    from isentropic.evaluation.exported import exported
    from isentropic.sampler.vllm.completions import local_root

    if subject.model is not None:
        return subject.model
    if subject.checkpoint is not None:
        with bad_input():
            return exported(subject.checkpoint, cfg.sampler.dtype, cfg.base)
    assert served is not None
    root = cfg.server.tokenizer or local_root(served)
    if root is None or not (Path(root) / "config.json").is_file():
        raise BadInput(
            f"the server at {subject.url} serves {served.root}, which is no folder here, and prompts need its "
            f"tokenizer; server.tokenizer={cfg.server.tokenizer or '...'} must be a folder with its config.json"
        )
    return Path(root).resolve()


def tokenizer_of(cfg: DictConfig, subject: Subject, served: "Served | None", model: Path) -> "PreTrainedTokenizerBase":
    from transformers import AutoTokenizer

    from isentropic.rollout.prompts import template_of
    from isentropic.sampler.vllm.completions import check_tokenizer
    from isentropic.sampler.vllm.http import Service

    with bad_input("subject"):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(model)
        if template := template_of(cfg.training.chat_template):
            tokenizer.chat_template = template
    if served is not None:
        with bad_input():
            check_tokenizer(Service(str(subject.url), FIRST_WORD, None, None), served, tokenizer)
    return tokenizer


def limits_of(cfg: DictConfig, model: Path, served: "Served | None") -> tuple[int, int]:
    """Tokens of a prompt and its answer, by the model or server, or less where less is asked for; and of the model."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(model)
    longest = served.max_model_len if served else getattr(config, "max_position_embeddings", None)
    limits = [limit for limit in (longest, cfg.sampler.max_model_len or None) if limit is not None]
    return min(limits, default=2**31), getattr(config.get_text_config(), "vocab_size", 2**31)


def sampler_of(cfg: DictConfig, subject: Subject, context: int, model: Path) -> "Sampler":
    from isentropic.train import fall_back

    if subject.url is not None:
        from isentropic.sampler.vllm.completions import CompletionsSampler

        server = cfg.server
        return CompletionsSampler(
            subject.url, str(model), server.model, context, int(server.requests), float(server.timeout)
        )
    if "url" in cfg.sampler:
        raise BadInput("sampler=vllm_server is for training; start `vllm serve` and give its URL as subject")
    check_hardware(OmegaConf.create({"sampler": plain(cfg, "sampler"), "trainer": {"accelerator": "auto"}}))
    fall_back(cfg)
    cfg.sampler.max_model_len = context
    for name, value in DECIDED.items():
        if name in cfg.sampler:
            cfg.sampler[name] = value
    return build(cfg, "sampler")


def name_of(subject: Subject, protocol: "Protocol", served: "Served | None") -> str:
    own = f"{named(Path(served.root).name)}-{subject.name}" if served else subject.name
    return "-".join([own, protocol.name, *(named(name) for name in protocol.only or ())])


def weights_of(model: Path, served: "Served | None") -> str:
    from isentropic.evaluation.versions import weights_hash

    return weights_hash(model) if served is None else f"{served.root}, as served by vLLM {served.version}"


def settings_of(cfg: DictConfig, asked: "Sequence[AskedSet]", weights: str, data: Mapping[str, str]) -> dict[str, Any]:
    """What config.yaml holds: all settings, and what came of them."""
    parts: dict[str, Any] = {str(key): plain(cfg, str(key)) for key in cfg if key not in ("hydra", "card", "lengths")}
    for one in asked:
        parts.setdefault("asked", {})[one.name] = {
            "problems": len(one.asked), "count": one.count, "decoding": vars(one.decoding), "data": data[one.name],
        }  # fmt: skip
    return parts | {"weights": weights}
