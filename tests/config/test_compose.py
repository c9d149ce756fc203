"""Sentences for what does not exist, on a small set of configs."""

from pathlib import Path

import pytest

from isentropic.config.build import BadInput
from isentropic.config.compose import check_jobs, loader_of

KEYS = "the config has the keys base, part, seed and task"
FILES = {
    "train.yaml": "defaults: [_self_, task: sums, part: small, experiment: null]\nseed: 0\nbase: 0.5",
    "task/sums.yaml": "{limit: 9}",
    "task/words.yaml": "{limit: 3}",
    "part/small.yaml": "{_target_: isentropic.algorithm.clipping.fixed.Fixed, low: '${base}', high: 1, ceiling: 10.0}",
    "part/moved.yaml": "{_target_: isentropic.algorithm.clipping.gone.Gone}",
    "spare/one.yaml": "{limit: 1}",  # of a group that this config does not choose from
    "experiment/stale.yaml": "# @package _global_\nsede: 3",
    "experiment/stale_part.yaml": "# @package _global_\npart: {lowest: 3}",
    "experiment/lost.yaml": "# @package _global_\ndefaults: [override /task: wrods]",
    "experiment/flat.yaml": "# @package _global_\ntask: 3",
    "experiment/kept.yaml": "seed: 3",
    "experiment/listed.yaml": "- seed: 3",
    "experiment/loop.yaml": "# @package _global_\ndefaults: [loop]",
    "experiment/text.yaml": "defaults: sums",
}
SENTENCES = {
    "task=wrods": "task=wrods does not exist: task can be sums or words; did you mean words?",
    "experiment=new": "experiment=new does not exist: experiment can be flat, kept, listed, loop, lost, stale, ",
    "experiment=lost": "task=wrods does not exist: task can be sums or words; did you mean words?",
    "sede=1 task=words": f"sede does not exist: {KEYS}; did you mean seed?",
    "+sede=1": f"sede does not exist: {KEYS}; did you mean seed?",
    "experiment=stale": f"sede does not exist: {KEYS}; did you mean seed?",
    "spare=one": f"spare does not exist: {KEYS}",
    "seed=1 spare@part=one": f"spare@part does not exist: {KEYS}",
    "part.lwo=1": "part.lwo does not exist: part has the keys ceiling, high and low; did you mean low?",
    "+part.lwo=1": "part.lwo does not exist: part has the keys ceiling, high and low; did you mean low?",
    "experiment=stale_part": "part.lowest does not exist: part has the keys ceiling, high and low; did you mean low?",
    "part.low.x=1": "part.low.x does not exist: part.low is ${base}, which has no keys",
    "tasks/x=1": "tasks/x does not exist: the config has the groups experiment, part and task",
    "seed": "seed cannot be read; write key=value, and put quotes around values with special characters",
    "part.low=abc": "part.low=abc is not a float",
    "part.low=nan": "part.low=nan is not a number",
    "base=abc": "base=abc is not a float, which part.low reads",
    "base=???": "base has no value; set it with base=...",
    "seed=1,2": "seed=1,2 lists several values, each for a job of its own; add -m for such a sweep, or write",
    "~size": "Could not delete from config. 'size' does not exist.",
    "+seed=1": "Could not append to config. An item is already at 'seed'.",
    "part=moved": "part: isentropic.algorithm.clipping.gone.Gone cannot be imported",
    "-m seed=1,2 part.low=1,abc": "part.low=abc is not a float",
    "-m task=sums,wrods": "task=wrods does not exist: task can be sums or words; did you mean words?",
    "-m seed=range(3) task=sums,words base=null,abc": "base=null is not a float, which part.low reads",
    "task=null": "task=null names no option; choose one, or leave it out",
    "seed=1 task=3": "task=3 names no option",
    "-m task=glob(none*)": "task=glob(none*) matches none of the options that there are",
    "~task": "task is taken away, and nothing runs without it; choose one by task=...",
    "experiment=flat": "task=3 cannot be, as task has keys of its own; set one of these",
    "experiment=kept": "a file of experiment lacks `# @package _global_` in its first line, without which what it sets",
    "experiment=listed": "experiment/listed.yaml holds a list, and must hold keys with values",
    "experiment=loop": "the defaults of a config lead back to itself, so it would never be whole",
    "experiment=text": "Invalid defaults list in 'experiment/text', defaults must be a list (got str)",
}


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("line", SENTENCES)
def test_what_does_not_exist_is_named_with_what_does(configs: Path, line: str):
    overrides = line.split()
    with pytest.raises(BadInput) as caught:
        check_jobs(loader_of(configs), "train", [o for o in overrides if o != "-m"], sweep="-m" in overrides)
    assert str(caught.value).startswith(SENTENCES[line])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", ["", "task=words part.low=0.25 part.high=2", "task.limit=1"])
def test_what_exists_passes(configs: Path, line: str):
    check_jobs(loader_of(configs), "train", line.split(), sweep=False)
    check_jobs(loader_of(configs), "train", [*line.split(), "seed=1,2", "base=interval(0,1)"], sweep=True)


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path):
    (tmp_path / "train.yaml").write_bytes("name: Zürich".encode("latin-1"))
    with pytest.raises(BadInput, match=r"^train\.yaml is not UTF-8 from its byte 7 on$"):
        check_jobs(loader_of(tmp_path), "train", [], sweep=False)


def test_a_config_that_does_not_exist_is_named_with_those_that_do(configs: Path):
    # other tests of this process may have stored one
    with pytest.raises(BadInput, match=r"^--config-name=trian does not exist; there are (\w+ and )?train$"):
        check_jobs(loader_of(configs), "trian", [], sweep=False)
