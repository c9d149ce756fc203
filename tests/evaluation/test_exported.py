"""A checkpoint as a folder beside it: made once, for its content."""

from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForCausalLM

from isentropic.evaluation.exported import exported
from isentropic.runs.subject import subject_of


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


def test_a_run_and_its_last_checkpoint_are_the_same_subject(run):
    of_run, of_file = subject_of(str(run.folder)), subject_of(str(run.last))
    assert of_run == of_file and of_run.name == "2026-01-02-rollout_7"
    assert of_run.checkpoint == run.last.resolve()


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


def test_what_is_no_checkpoint_is_said_in_one_sentence(tmp_path):
    (tmp_path / "x.ckpt").write_bytes(b"no checkpoint")
    with pytest.raises(ValueError, match="cannot be read") as refused:
        exported(tmp_path / "x.ckpt", "float32", None)
    assert "\n" not in str(refused.value) and not list(tmp_path.glob("exported_*"))
