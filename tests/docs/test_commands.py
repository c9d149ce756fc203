"""Every command of README.md and docs/ can be given as it stands, and its block says what it needs beside a CPU."""

import ast
import atexit
import re
import shlex
import shutil
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

import pytest
from fixtures.page_commands import NEEDS, ROOT, Block, bare, blocks, of_page
from omegaconf import DictConfig, OmegaConf

from isentropic.__main__ import COMMANDS
from isentropic.commands.new import make, module_of
from isentropic.commands.search_space import Range, parse
from isentropic.config.build import BadInput
from isentropic.config.compose import CONFIGS, check_jobs, loader_of
from isentropic.config.graders import GROUP

COMPOSED = ("train", "plan", "audit-task", "preflight", "inspect", "benchmark", "pretrain")
PARSED = {"report": "report", "compare": "compare", "words": "words"}  # by argparse
KEYS = {"export": "DEFAULTS", "contamination": "OWN"}  # by a list of keys in the module
POSITIONAL = ("convert", "methods", "new")
OTHERS = {
    "pip",
    "conda",
    "cp",
    "git",
    "vllm",
    "hf",
    "docker",
    "apptainer",
    "nvidia-smi",
    "sbatch",
    "scancel",
    "tensorboard",
}
BLOCKS = blocks()
FIRST = ("README.md", "docs/start.md", "docs/concepts.md")  # the pages that everyone reads, composed every day


@cache
def made() -> dict[str, Path]:
    """The packages that the pages tell a reader to make, by name."""
    place = Path(mkdtemp())
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return {module_of(name): make(place, name) for name in ("mine", "my-method")}


@cache
def loader():
    """With the options of these packages, in one folder."""
    for name, folder in made().items():
        configs = shutil.copytree(folder / name / "configs", folder.parent / "configs", dirs_exist_ok=True)
    return loader_of(CONFIGS, str(configs))


@pytest.fixture(scope="module", autouse=True)
def own_packages():
    folders = [str(folder) for folder in made().values()]
    sys.path.extend(folders)
    yield
    for folder in folders:
        sys.path.remove(folder)


def given(words: list[str]) -> list[str]:
    """Overrides as Hydra can read them: a value that the page leaves out is any, and spaces are quoted."""
    found: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if value == "..." or word == "..." or word.isupper() or word in ("-m", "--multirun"):
            continue
        value = re.sub(r"<[\w ]+>", "any", value)
        plain = " " in value and not value.startswith(("[", "{", "'", '"'))
        found.append(f"{key}={shlex.quote(value)}" if plain else f"{key}{equals}{value}")
    return found


@cache
def checked(config: str, overrides: tuple[str, ...], sweep: bool, parts: bool) -> DictConfig:
    """Once, in however many blocks it stands."""
    return check_jobs(loader(), config, [*overrides], sweep=sweep, parts=parts)


def composed(name: str, words: list[str], parts: bool) -> DictConfig:
    overrides, config = given([word for word in words if not word.startswith("--")]), name.replace("-", "_")
    if "--vs" in words:
        peer = words[words.index("--vs") + 1]
        overrides = [*(one for one in overrides if one != peer), f"benchmark.vs={peer}"]
    sweep = "-m" in words or "--multirun" in words or any("launcher=slurm" in word for word in words)
    return checked(config, tuple(overrides), sweep, parts)


def searched(words: list[str], parts: bool) -> DictConfig:
    """A search by the first value of each range."""
    _folder, *named = [b for a, b in pairwise(["", *words]) if not a.startswith("--") and not b.startswith("--")]
    fixed, spaces = parse(named)
    first = [f"{one.key}={one.low if isinstance(one, Range) else one.values[0]}" for one in spaces]
    return composed("train", [*fixed, *first], parts)


def evaluated(words: list[str]) -> None:
    told = dict(word.partition("=")[::2] for word in words)
    if "regrade" in told:
        names = told.pop("grader").strip("[]").split(",")
        options = ["model" if name.startswith("model:") else name for name in names]
        own = [f"graders.model.model={name[6:]!r}" for name in names if name.startswith("model:")]
        own += [f"{key}={value}" for key, value in told.items() if key != "regrade"]
        check_jobs(loader(), "regrade", [f"{GROUP}@graders=[{','.join(options)}]", *own], sweep=False, parts=False)
    elif "subject" in told:
        from isentropic.judge import composed as judged

        experiment = told.get("experiment") or ("quickstart" if told["subject"].startswith("logs") else None)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("isentropic.judge.has_gpu", lambda: False)
            judged(given(words), told["subject"], experiment)
    else:
        check_jobs(loader(), "eval", given(words), sweep=False, parts=False)


def constant(module: str, name: str) -> tuple[str, ...]:
    tree = ast.parse((ROOT / "src" / Path(*COMMANDS[module].split("."))).with_suffix(".py").read_text())
    found = next(n.value for n in tree.body if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == name)
    return tuple(ast.literal_eval(found))


def options_are_known(words: list[str], file: Path) -> None:
    text = file.read_text()
    for word in words:
        if word.startswith("--"):
            assert f'"{word.partition("=")[0]}"' in text, f"{file.name} has no option {word}"


def needed(words: tuple[str, ...], parts: bool) -> set[str]:
    """What a command needs. Raises BadInput or AssertionError for one that cannot be given."""
    program, *rest = bare(words)
    needs = {"SLURM"} if "srun" in words or program in ("sbatch", "scancel") else set[str]()
    if program == "isentropic":
        return needs | asked(rest, parts)
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
        arguments = dict(word.partition("=")[::2] for word in rest if "=" in word)
        assert all(word in targets for word in rest if "=" not in word), f"no such target: {rest}"
        if rest[0] == "train":
            composed("train", ["experiment=quickstart", *shlex.split(arguments.get("ARGS", ""))], parts)
        return needs
    if program in ("python", "torchrun"):
        return needs | started(rest)
    if "=" in program and not rest:  # settings under a name, for commands that follow
        composed("train", shlex.split(program.partition("=")[2]), parts)
        return needs
    assert program in OTHERS, f"{program} is no command that this test knows"
    return needs | ({"a card", "the network"} if program == "vllm" else set())


def started(rest: list[str]) -> set[str]:
    if rest[:2] == ["-m", "pytest"]:
        ones_own = ("tests/algorithm/credit/test_mine.py", "my-method")  # by the pages that run them
        assert all((ROOT / word).exists() or word in ones_own for word in rest[2:] if not word.startswith("-"))
    elif rest[0] == "-m":
        assert rest[1].startswith("vllm."), rest
        return {"a card"}
    else:
        file = next(ROOT / word for word in rest if word.endswith(".py"))
        options_are_known(rest, file)
    return {"a card"} if "--gpus" in rest else set()


def asked(words: list[str], parts: bool) -> set[str]:
    """Of `isentropic COMMAND ...`."""
    if not words or words[0].startswith("--"):
        return set()
    name, *rest = words
    assert name in COMMANDS, f"there is no command {name}"
    if "--help" in rest:
        return set()
    if name in COMPOSED:
        return needs_of(name, composed(name, rest, parts and name != "pretrain"), rest)  # which is no part itself
    if name == "tune":
        return needs_of(name, searched(rest, parts), rest)
    if name == "eval":
        evaluated(rest)
        hub = any(re.fullmatch(r"subject=[\w-]+/[\w.-]+", word) for word in rest)
        return {"the network"} if hub and "dry_run=true" not in rest else set()
    if name in PARSED:
        options_are_known([word.strip("[]") for word in rest], ROOT / f"src/isentropic/commands/{PARSED[name]}.py")
    elif name in KEYS:
        known = (*constant(name, KEYS[name]), "paths.data")
        assert all(word.partition("=")[0] in known for word in rest), f"{rest} are not all of {known}"
    else:
        assert name in POSITIONAL, f"{name} is not looked at by this test"
    return set()


def needs_of(name: str, cfg: DictConfig, words: list[str]) -> set[str]:
    if name not in ("train", "preflight", "benchmark", "tune") or "hydra.launcher.dry=true" in words:
        return set()
    found = {"SLURM"} if any("launcher=slurm" in word or "cluster=slurm" in word for word in words) else set[str]()
    sampler = OmegaConf.to_container(cfg.sampler)
    if cfg.trainer.accelerator == "gpu" or sampler.get("transfer") == "nccl" or sampler.get("sleep_level"):
        found.add("a card")
    if name != "benchmark" and re.fullmatch(r"(?!logs/)[\w-]+/[\w.-]+", str(cfg.policy.model.path)):
        found.add("the network")
    return found


def test_pages_have_commands_and_marks():
    assert len(BLOCKS) > 60 and all(block.marked <= set(NEEDS) for block in BLOCKS)


SHOWN_FIRST = [block for block in BLOCKS if block.page in FIRST]


def option_files(word: str) -> list[Path]:
    """The files of configs/ that an override such as task=countdown or 'reward=[correct,length]' chooses."""
    group, _, value = word.partition("=")
    folder = CONFIGS / group.partition("@")[0].lstrip("+~")
    if not folder.is_dir() or "(" in value or value in ("null", "..."):
        return []
    return [folder / f"{name}.yaml" for name in re.findall(r"[\w.]+", value)]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_names_commands_and_options_that_are_there(block: Block):
    for words in block.commands:
        program, *rest = bare(words)
        assert program != "isentropic" or rest[0] in COMMANDS or rest[0].startswith("--"), words
        files = [file for word in rest for file in option_files(word)]
        folders = [CONFIGS, *(folder / name / "configs" for name, folder in made().items())]
        inside = [file.relative_to(CONFIGS) for file in files]
        missing = [one for one in inside if not any((folder / one).exists() for folder in folders)]
        assert program != "isentropic" or missing == [], f"{missing} of: {' '.join(words)}"


@pytest.mark.parametrize("block", SHOWN_FIRST, ids=str)
def test_a_block_of_the_first_pages_can_be_given_and_says_what_it_needs(block: Block):
    assert set(block.marked) == set().union(*(needed(words, parts=False) for words in block.commands))


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_can_be_given_has_parts_with_these_settings_and_says_what_it_needs(block: Block):
    assert set(block.marked) == set().union(*(needed(words, parts=True) for words in block.commands))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("isentropic train experiment=quickstart algoritm=grpo", "algoritm"),
        ("isentropic train experiment=quickstart \\\n  algorithm=gpro", "gpro does not exist"),
        ("isentropic tran experiment=quickstart", "no command tran"),
        ("isentropic export ckpt=x out=y", "ckpt"),
        ("isentropic report logs --refrence grpo", "--refrence"),
        ("make tset", "no such target"),
        ("python benchmarks/audit.py --outt x", "--outt"),
        ("isentropic eval subject=x evaluation/protocol=stair", "stair"),
        ("rm -r logs", "rm is no command"),
    ],
)
def test_a_command_that_cannot_be_is_found_out(text: str, wrong: str):
    (block,) = of_page(f"```bash\n{text}\n```\n", "a page")
    with pytest.raises((BadInput, AssertionError), match=wrong):
        needed(block.commands[0], parts=False)


def test_what_a_command_needs_is_found_out():
    text = "<!-- needs a card and SLURM -->\n```bash\nisentropic train trainer=fsdp hydra/launcher=slurm\n```\n"
    (block,) = of_page(text, "a page")
    assert block.marked == needed(block.commands[0], parts=False) == {"a card", "SLURM"}
