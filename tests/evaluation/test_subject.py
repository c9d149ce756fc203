"""What may be judged, and what is said of what may not."""

import json
import shutil
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForCausalLM

from isentropic.evaluation.subject import exported, named, subject_of


@pytest.fixture
def run(tiny_model, tmp_path):
    """A run's folder with a checkpoint that is not its start."""
    from isentropic.policy.model.language_model import LanguageModel, ModelSettings

    module = torch.nn.Module()
    module.policy = LanguageModel(ModelSettings(tiny_model, "float32", 16, False, "none", False), None, None)
    with torch.no_grad():
        for value in module.policy.parameters():
            value.mul_(1.5)
    folder = tmp_path / "2026-01-02"
    (folder / "checkpoints").mkdir(parents=True)
    ours = {"model": module.policy.shape(), "path": tiny_model, "adapter": None, "rollouts": 7}
    torch.save({"state_dict": module.state_dict(), "isentropic": ours}, folder / "checkpoints" / "rollout_7.ckpt")
    (folder / "checkpoints" / "last.ckpt").symlink_to("rollout_7.ckpt")
    return SimpleNamespace(folder=folder, last=folder / "checkpoints" / "last.ckpt", policy=module.policy)


def test_a_model_s_folder(tiny_model):
    subject = subject_of(tiny_model)
    assert (str(subject.model), subject.checkpoint, subject.url) == (tiny_model, None, None)
    assert tiny_model.endswith(subject.name)


def test_a_run_and_its_last_checkpoint_are_the_same_subject(run):
    of_run, of_file = subject_of(str(run.folder)), subject_of(str(run.last))
    assert of_run == of_file and of_run.name == "2026-01-02-rollout_7"
    assert of_run.checkpoint == run.last.resolve()


def test_a_server():
    subject = subject_of("http://node7:8000/")
    assert (subject.name, subject.url) == ("node7-8000", "http://node7:8000")


def test_a_checkpoint_is_exported_once_beside_itself_under_its_hash(run):
    folder = exported(run.last.resolve(), "float32", None)
    assert folder.parent == run.last.parent and folder.name.startswith("exported_rollout_7_")
    made = (folder / "config.json").stat().st_mtime_ns
    assert exported(run.last.resolve(), "float32", None) == folder
    assert (folder / "config.json").stat().st_mtime_ns == made
    weights = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in run.policy.lm.state_dict().items())
    content = torch.load(run.last, weights_only=True)
    torch.save(content | {"more": 1}, run.last.resolve())
    assert exported(run.last.resolve(), "float32", None) != folder
    assert not [one for one in run.last.parent.iterdir() if one.name.endswith(".unfinished")]


def test_what_keeps_checkpoints_does_not_take_exported_folders_away(run):
    from isentropic.callbacks.checkpoint import OLDER

    exported(run.last.resolve(), "float32", None)
    assert [one.name for pattern in OLDER for one in run.last.parent.glob(pattern)] == ["rollout_7.ckpt"]


def test_what_is_no_subject_is_said_in_one_sentence(tiny_model, tmp_path):
    empty, bare, file = tmp_path / "empty", tmp_path / "bare", tmp_path / "x.ckpt"
    empty.mkdir(), bare.mkdir(), file.write_bytes(b"no checkpoint")
    shutil.copy(f"{tiny_model}/config.json", bare)
    for given, said in (
        (tmp_path / "none", "does not exist"),
        (empty, "is neither a model"),
        (bare, "holds no weights"),
    ):
        with pytest.raises(ValueError, match=said) as refused:
            subject_of(str(given))
        assert "\n" not in str(refused.value) and str(given) in str(refused.value)
    with pytest.raises(ValueError, match="cannot be read"):
        exported(subject_of(str(file)).checkpoint, "float32", None)
    assert json.loads((bare / "config.json").read_text())


def test_names_of_folders_hold_nothing_odd():
    assert named("a b/c:d") == "a-b-c-d" and named("..") == "subject"
