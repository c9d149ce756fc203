"""The command line: what there is, and what is answered for what there is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from isentropic import __version__
from isentropic.__main__ import COMMANDS, help_of, overview

PROGRAM = Path(__file__).parents[1] / "src/isentropic/train.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "isentropic", *arguments], capture_output=True, text=True, timeout=300)


def test_the_version_and_every_command_are_told():
    assert run("--version").stdout == f"isentropic {__version__}\n"
    assert run().stdout == run("--help").stdout == overview() + "\n"
    assert all(f"\n  {name} " in overview() for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_of_one_shape(name: str):
    assert help_of(name).startswith(f"usage: isentropic {name} ...\n\n")


def test_help_lists_what_can_be_chosen():
    assert "  algorithm/control: adaptive_coefficient, adaptive_gate, band, constant, " in help_of("train")
    assert "algorithm/control" not in help_of("export")


@pytest.mark.parametrize(("module", "argument"), [("isentropic", "words"), ("isentropic.train", "--version")])
def test_python_looks_for_no_garbage_in_what_was_imported_when_it_ends(module: str, argument: str):
    code = "import atexit, gc, runpy, sys; atexit.register(lambda: print(gc.get_freeze_count(), file=sys.stderr)); "
    code += f"sys.argv[1:] = ['{argument}', '--help']; runpy.run_module('{module}', None, '__main__', True)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert int(said.stderr.splitlines()[-1]) > 0


def test_help_imports_neither_torch_nor_hydra():
    code = "import sys; sys.argv[1:] = ['train', '--help']; from isentropic.__main__ import main; main(); "
    code += "assert not {'torch', 'lightning', 'hydra'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=300)


def test_what_a_command_cannot_use_is_said_before_anything_slow_is_imported():
    code = """
import sys
from isentropic.__main__ import main
lines = ("export", "export nothing", "export ckpt_path=nowhere out=new", "convert", "convert nowhere new",
         "compare nowhere there", "contamination", "train --hlep", "train experiment=quickstart rollout.steps=0",
         "eval ckpt_path=nowhere")
for line in lines:
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit as ended:
        assert ended.code == 2, line
    else:
        raise AssertionError(line)
assert not {"torch", "lightning", "transformers"} & set(sys.modules)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert found.returncode == 0 and found.stderr.count("error: ") == found.stderr.count("\n") == 10, found.stderr


def test_the_version_is_ours_after_a_command_too(capsys, monkeypatch):
    from isentropic.train import train

    monkeypatch.setattr(sys, "argv", ["train", "--version"])
    train()
    assert capsys.readouterr().out == f"isentropic {__version__}\n"


def test_a_command_that_is_not_there_is_answered_with_the_nearest():
    found = run("trian", "experiment=quickstart")
    assert (found.returncode, found.stderr) == (2, "error: there is no command trian; did you mean train?\n")


@pytest.mark.parametrize(
    ("line", "unbuffered"),
    [
        ("--version", ""),
        ("new my-method", ""),
        ("new my-method", "1"),
        ("train experiment=quickstart --cfg job", "1"),
        ("report --help", ""),
    ],
)
def test_a_command_whose_output_nobody_reads_does_its_work_and_ends_quietly(line: str, unbuffered: str, tmp_path: Path):
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-m", "isentropic", *line.split()],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        text=True,
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "my-method" / "README.md").is_file() == line.startswith("new")


@pytest.mark.parametrize("how", [["-m", "isentropic", "train"], ["-m", "isentropic.train"], [str(PROGRAM)]])
def test_train_without_settings_says_what_to_try(how):
    found = subprocess.run([sys.executable, *how], capture_output=True, text=True, timeout=300)
    assert found.returncode == 2 and "isentropic train experiment=quickstart" in found.stderr


def test_a_command_whose_extra_is_not_installed_says_which_it_is(tmp_path):
    (tmp_path / "scipy").mkdir()
    (tmp_path / "scipy" / "__init__.py").write_text("raise ModuleNotFoundError('No module named scipy', name='scipy')")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(PROGRAM.parents[1])])}
    command = [sys.executable, "-m", "isentropic", "report", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    sentence = "error: isentropic report needs the package scipy; pip install 'isentropic[report]'\n"
    assert (ended.returncode, ended.stderr) == (2, sentence)
