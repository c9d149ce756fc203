import pytest
from lightning import Trainer

from isentropic.callbacks.curves import Curves


def test_a_run_ends_with_a_picture(run, tmp_path):
    run([Curves()], steps=3)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_without_metrics_it_says_why_there_is_none(tiny, tmp_path):
    trainer = Trainer(default_root_dir=tmp_path, accelerator="cpu", logger=False, enable_checkpointing=False)
    with pytest.warns(UserWarning, match="add logger=csv"):
        Curves().on_fit_end(trainer, tiny())
    assert not (tmp_path / "curves.png").exists()
