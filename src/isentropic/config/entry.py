"""What every entry point shares: a checked command line, and the life of one run. Imports neither torch nor lightning.

    @main("train")                                  # configs/train.yaml
    def train(cfg: DictConfig) -> float | None:     # a float is what a sweeper may optimise
        import lightning                            # slow imports belong here, after the first line on the screen
        ...

Before Hydra makes the run's folder, the whole config of every job is composed and checked, without importing a part.
BadInput, then or later, is one sentence on stderr, and exit code 2 where nothing ran, else 1, with a traceback only
under HYDRA_FULL_ERROR=1; a folder in which nothing but the config was written is removed. Rank 0 of each job writes
config.yaml (resolved), config_sources.txt (each value and where it came from; print_config=true prints it) and
status.json into its folder.
"""

import atexit
import errno
import gc
import logging
import os
import shutil
import signal
import sys
import threading
import warnings
from argparse import Namespace
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from isentropic import __version__
from isentropic.config.build import BadInput, bad_input
from isentropic.config.compose import CONFIGS, ROOT, check_jobs, compose, loader_of
from isentropic.config.early import check_checkpoint, check_current_folder, check_run_folder
from isentropic.config.names import name_sweep, quoted
from isentropic.config.options import options_of
from isentropic.config.orphans import end_with_first, ending_in_time
from isentropic.config.process import a_process_of_its_own, extra_configs, task_overrides
from isentropic.config.provenance import sources, tree
from isentropic.config.refused import NOTHING_RAN, refuse
from isentropic.config.screen import lasting_screen
from isentropic.runs import files
from isentropic.runs.lock import locked, refuse_overwriting, refuse_running
from isentropic.runs.status import ASKS, ENDS, as_ended, heard, recorded

START = """isentropic train runs nothing without settings. Try

    isentropic train experiment=quickstart      # five minutes on two CPU cores
    isentropic train --help
"""
AT_END: list[Callable[[], None]] = []  # called when Hydra is done, as by a sweep with a table to print
# what a disk may answer
DISK = errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE
CONFIG_FILES = {files.HYDRA, files.CONFIG, files.CONFIG_SOURCES, files.STATUS}


def main(
    name: str, configs: Path = CONFIGS, given: Callable[[Sequence[str]], list[str]] = list
) -> Callable[[Callable[[DictConfig], Any]], Callable[[], None]]:
    """`hydra.main` for configs/<name>.yaml, with checks before the run's folder exists.

    `given` may put arguments before those of the command line.
    """

    def decorate(function: Callable[[DictConfig], Any]) -> Callable[[], None]:
        @wraps(function)
        def job(cfg: DictConfig) -> Any:
            quiet()  # once more, since Hydra set up logging anew
            folder = Path(HydraConfig.get().runtime.output_dir)
            with ExitStack() as life:
                if rank() == 0:
                    with one_sentence(), bad_input("hydra.run.dir"):  # nothing is taken back: it is another run's
                        life.enter_context(locked(folder))
                with one_sentence(folder):
                    return _live(function, cfg, folder, configs)

        @wraps(function)
        def entry() -> None:
            try:
                with lasting_screen():
                    _start(job, name, configs, given)
            except KeyboardInterrupt:  # before the job, which has its own word for it
                print("stopped", file=sys.stderr, flush=True)
                raise SystemExit(130) from None

        return entry

    return decorate


def _start(job: Callable[..., Any], name: str, configs: Path, given: Callable[[Sequence[str]], list[str]]) -> None:
    """Checks the command line, and has Hydra run what it says."""
    if name == "train" and configs == CONFIGS and not sys.argv[1:]:
        print(START, file=sys.stderr)
        raise SystemExit(2)
    atexit.register(gc.freeze)  # or Python would end by looking for garbage in all that was imported: seconds
    read_environment()
    quiet()
    warnings.formatwarning = _one_line
    run = hydra.main(version_base="1.3", config_path=str(configs), config_name=name)(job)
    if "--version" in sys.argv[1:]:
        print(f"isentropic {__version__}")
        return
    with one_sentence():
        check_current_folder()
        arguments, sys.argv[1:] = options_of([quoted(one) for one in given(sys.argv[1:])])
    asks = (arguments.help, arguments.hydra_help, arguments.shell_completion, arguments.info)
    if not any(asks) and arguments.config_path is None and arguments.experimental_rerun is None:
        with one_sentence():
            _check_command_line(arguments, arguments.config_name or name, configs)
    try:
        run()
    finally:
        for end in AT_END:
            end()


def _live(function: Callable[[DictConfig], Any], cfg: DictConfig, folder: Path, configs: Path) -> Any:
    """From the run's first file to its last word."""
    with a_process_of_its_own(folder), ending_in_time():
        if rank() == 0:
            _record(cfg, folder, configs)
            with _on_signals(), recorded(folder, task_overrides()) as status:
                result, status.why = as_ended(function(cfg))
                status.result = float(result) if isinstance(result, int | float) else None
        else:
            end_with_first()
            result, _ = as_ended(function(cfg))
    if rank() == 0:  # after all that loggers say at their end
        print(f"run folder: {folder}", flush=True)
    return result


def rank() -> int:
    """Of this process among those of its run, before any process group exists."""
    return next((int(os.environ[k]) for k in ("RANK", "LOCAL_RANK", "SLURM_PROCID") if k in os.environ), 0)


def quiet() -> None:
    """What libraries say of themselves would hide what a run says; HYDRA_FULL_ERROR=1 brings it back."""
    if os.environ.get("HYDRA_FULL_ERROR") == "1" or sys.warnoptions:
        return
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    for library in ("lightning.pytorch", "lightning.fabric", "torch._library", "vllm"):
        logging.getLogger(library).setLevel(logging.ERROR)
    for module in ("lightning", "torch", "vllm", "transformers"):
        warnings.filterwarnings("ignore", module=rf"{module}\..*")
    installed = r".*[/\\](site|dist)-packages[/\\].*"  # a module that is being compiled goes by its file
    warnings.filterwarnings("ignore", category=SyntaxWarning, module=installed)


def _one_line(message: Warning | str, category: type[Warning], file: str, line: int, *_: Any, **__: Any) -> str:
    place = f"{file}, line {line}: " if issubclass(category, SyntaxWarning) else ""
    return f"warning: {place}{message}\n"


@contextmanager
def one_sentence(folder: Path | None = None) -> Generator[None]:
    """Prints BadInput and exits, taking back the run's folder if nothing has happened in it yet."""
    try:
        yield
    except BadInput as error:
        nothing_ran = folder is None or _take_back(folder) or (rank() > 0 and not folder.exists())
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        refuse(error, NOTHING_RAN if nothing_ran else 1)
    except OSError as error:
        if error.errno not in DISK or os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        refuse(of_disk(error, folder), 1)
    except (KeyboardInterrupt, SystemExit) as error:
        stopped = isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt)
        if not stopped:  # Lightning makes an exit code of 1 out of CTRL-C
            raise
        if folder is not None:
            _take_back(folder)
        print("stopped", file=sys.stderr, flush=True)
        raise SystemExit(130) from None


def of_disk(error: OSError, folder: Path | None) -> str:
    """What is wrong, and where; libraries leave out the file."""
    if folder is not None and not folder.is_dir():
        return f"{folder} is gone, and with it what this run has saved"
    if error.errno not in DISK:
        return " ".join(str(error).split())
    place = error.filename or folder
    return f"{place}: {error.strerror}; free some space, or choose another hydra.run.dir".removeprefix("None: ")


def _take_back(folder: Path) -> bool:
    """Whether nothing is left of a run in which nothing has happened."""
    if not folder.is_dir():
        return False
    for path, made in (folder, CONFIG_FILES), *((parent, {"multirun.yaml"}) for parent in folder.parents[:3]):
        logs = {entry.name for entry in path.glob("*.log") if not entry.stat().st_size}  # that of a sweep's job is kept
        if not {entry.name for entry in path.iterdir()} <= made | (logs if path == folder else set()):
            return path != folder
        shutil.rmtree(path)
    return True


@contextmanager
def _on_signals() -> Generator[None]:
    """Leaves as after an exception, until the checkpoint's own handler takes over; else nobody would hear of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = set(heard(*ASKS, *ENDS)) - {signal.SIGINT}  # which is an exception already
    handlers = {number: signal.signal(number, lambda number, _: sys.exit(128 + number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def read_environment() -> None:
    """.env at the root of the project gives what the shell does not."""
    file = ROOT / ".env"
    for line in file.read_text().splitlines() if file.is_file() else []:
        name, equals, value = line.removeprefix("export ").partition("=")
        if equals and not line.lstrip().startswith("#"):
            os.environ.setdefault(name.strip(), value.strip().strip("\"'"))


def _check_command_line(arguments: Namespace, name: str, configs: Path) -> None:
    loader = loader_of(configs, arguments.config_dir)
    sweep = arguments.multirun or "hydra.mode=MULTIRUN" in arguments.overrides
    name_sweep(arguments.overrides)
    if not sweep and not arguments.cfg and _is_submitted(compose(loader, name, arguments.overrides), arguments):
        sys.argv.append("--multirun")  # a sweep of one job
    if not arguments.cfg and rank() == 0:
        print(f"isentropic {' '.join([name, *arguments.overrides])}: checking every setting", flush=True)
    cfg = check_jobs(loader, name, arguments.overrides, sweep, parts=not arguments.cfg)
    if not arguments.cfg and rank() == 0:
        check_checkpoint(cfg)
        place = "hydra.sweep.dir" if sweep or "--multirun" in sys.argv else "hydra.run.dir"
        folder = Path(str(OmegaConf.select(cfg, place)))
        if place == "hydra.run.dir" and folder.is_dir():
            with bad_input(place):
                refuse_running(folder)
                refuse_overwriting(folder, cfg.get("ckpt_path"), learns=name == "train")
        check_run_folder(place, str(folder), links=name == "train")


def _is_submitted(cfg: DictConfig, arguments: Namespace) -> bool:
    """Whether a run by itself goes to a cluster's queue; a job of a sweep says `hydra.mode=RUN`. Raises BadInput."""
    launcher = cfg.hydra.runtime.choices["hydra/launcher"]
    if launcher in ("local", "basic") or "hydra.mode=RUN" in arguments.overrides:
        return False
    if folder := next((line for line in arguments.overrides if line.startswith("hydra.run.dir=")), None):
        raise BadInput(
            f"{folder} is the folder of a run on this machine; for hydra/launcher={launcher} name its parent "
            "by hydra.sweep.dir and the folder in it by hydra.sweep.subdir"
        )
    return True


def _record(cfg: DictConfig, folder: Path, configs: Path) -> None:
    job = HydraConfig.get()
    origin = sources(loader_of(configs, extra_configs()), str(job.job.config_name), task_overrides())
    text = tree(cfg, origin)
    (folder / files.CONFIG).write_text(OmegaConf.to_yaml(cfg, resolve=True))
    (folder / files.CONFIG_SOURCES).write_text(text)
    if cfg.get("print_config"):
        print(text, flush=True)
