"""Options of the command line: what is none is a sentence, and settings may stand before, between and after them."""

import subprocess
import sys
from pathlib import Path

import pytest

from isentropic.config.build import BadInput
from isentropic.config.options import options_of


@pytest.mark.parametrize(
    "line, sentence",
    [
        ("--hlep", "there is no option --hlep; did you mean --help?"),
        ("seed=1 --multi", "there is no option --multi; did you mean --multirun?"),
        (
            "-experiment=quickstart",
            "there is no option -experiment; settings have no dashes, as in experiment=quick",
        ),
        ("--experiment quickstart", "there is no option --experiment; isentropic --help lists what there is"),
        (
            "-policy.optimization.lr=1",
            "there is no option -policy.optimization.lr; settings have no dashes, as in",
        ),
        ("--config-dir", "--config-dir/-cd: expected one argument"),
        ("--config-dir nowhere seed=1", "--config-dir=nowhere is not a folder"),
        ("--cfg all_of_it", "--cfg/-c: invalid choice: 'all_of_it' (choose from 'job', 'hydra', 'all')"),
    ],
)
def test_what_is_no_option_is_one_sentence(line: str, sentence: str):
    with pytest.raises(BadInput) as caught:
        options_of(line.split())
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("place", range(3))
def test_options_stand_anywhere(tmp_path: Path, place: int):
    settings = ["seed=1,2", "rollout.steps=3"]
    found, line = options_of([*settings[:place], "-m", "--config-dir", str(tmp_path), *settings[place:]])
    assert found.multirun and found.config_dir == str(tmp_path) and found.overrides == settings
    assert line == [*settings, "-m", "--config-dir", str(tmp_path)]


def test_a_file_in_the_folder_does_not_stand_for_a_module_of_python(tmp_path: Path):
    """`python -m` looks for modules where it is called."""
    for name in ("random", "logging", "yaml", "torch", "train"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not this one')")
    command = [sys.executable, "-m", "isentropic", "train", "experiment=quickstart", "rollout.steps=ten"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (2, "error: rollout.steps=ten is not an int\n")
