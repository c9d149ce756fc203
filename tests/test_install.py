"""The set-up's decisions, on a copy of its files; installing itself is what `make test` begins with."""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def set_up(root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "requirements" / "install.py")]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)


def installed(root: Path) -> Path:
    """A finished .venv, as far as the set-up looks; returns its site-packages."""
    spec = importlib.util.spec_from_file_location("install", root / "requirements" / "install.py")
    assert spec and spec.loader
    install = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(install)
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".venv" / "bin" / "python").touch()
    (root / ".venv" / "installed").write_text(f"{install.ROOT}\n{install.fingerprint()}\n")
    packages = root / ".venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    return packages


def test_a_finished_installation_is_left_alone(copy: Path):
    installed(copy)
    ended = set_up(copy)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_torchvision_beside_a_cpu_torch_is_refused_with_what_to_do(copy: Path):
    (installed(copy) / "torchvision-0.28.0.dist-info").mkdir()
    ended = set_up(copy)
    assert ended.returncode == 1
    assert "torchvision" in ended.stderr and "pip uninstall" in ended.stderr


def test_a_python_without_ensurepip_is_named(copy: Path, tmp_path: Path):
    (tmp_path / "bare" / "ensurepip").mkdir(parents=True)
    (tmp_path / "bare" / "ensurepip" / "__init__.py").write_text("raise ImportError")
    ended = set_up(copy, PYTHONPATH=str(tmp_path / "bare"))
    assert ended.returncode == 1
    assert "ensurepip" in ended.stderr and sys.executable in ended.stderr
    assert not (copy / ".venv").exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_what_was_compiled_is_kept_also_where_the_machine_would_not(copy: Path):
    """Many a container sets the variable; each process would compile torch, transformers and the tests anew."""
    show = [sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)"]
    machine = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    rule = f"--eval=kept: ; @{shlex.join(show)}"
    make = ["make", "--silent", "-f", str(ROOT / "Makefile"), rule, "kept"]
    assert subprocess.run(make, env=machine, capture_output=True, text=True).stdout == "False\n"
    packages = installed(copy)
    script = f"import install; install.run('showing', {show!r})"
    program = [sys.executable, "-c", script]
    machine["PYTHONPATH"] = str(copy / "requirements")
    subprocess.run(program, env=machine, capture_output=True, check=True)
    assert (packages.parents[2] / "install.log").read_text().splitlines()[-1] == "False"


def test_steps_go_on_at_once_and_each_leaves_what_it_said_in_one_piece(copy: Path):
    """Each waits for what the other has written by then."""
    packages = installed(copy)
    waits = "import sys, time, pathlib\nmine, other = map(pathlib.Path, sys.argv[1:])\nmine.touch()\nprint(mine.name)\n"
    waits += "end = time.time() + 60\nwhile not other.exists() and time.time() < end: time.sleep(.01)\n"
    waits += "print(mine.name, flush=True)\nsys.exit(not other.exists() or mine.name == 'b')"
    steps = [[str(copy / name) for name in names] for names in ("ab", "ba")]
    run = f"functools.partial(install.run, one[0][-1], [sys.executable, '-c', {waits!r}, *one])"
    script = f"import functools, sys, install\nprint(install.together(*({run} for one in {steps!r})))\n"
    script += "install.require('both', False)"
    environment = os.environ | {"PYTHONPATH": str(copy / "requirements")}
    said = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert said.stdout.splitlines()[-1] == "[True, False]"
    assert "\nb\nb\n\nThe set-up stopped at both" in said.stderr and "\na\n" not in said.stderr
    assert "  a  done  " in said.stdout and "  b  failed  " in said.stdout
    log = (packages.parents[2] / "install.log").read_text()
    assert "\na\na\n" in log and "\nb\nb\n" in log


def test_steps_that_are_interrupted_have_ended(copy: Path):
    installed(copy)
    script = "import sys, install\nfrom functools import partial\n"
    script += "wait = partial(install.run, 'waits', [sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    script += "def stop():\n    while not install.RUNNING: pass\n    raise KeyboardInterrupt\n"
    script += "install.together(stop, wait)"
    environment = os.environ | {"PYTHONPATH": str(copy / "requirements")}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode != 0 and "KeyboardInterrupt" in ended.stderr and "  waits  failed  " in ended.stdout
