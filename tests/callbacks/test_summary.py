import re

import pytest
from fixtures.models import saving
from lightning import Trainer

from isentropic.callbacks.summary import Curves, Summary, before_during_after, thirds


def test_a_run_ends_with_one_table(run, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    run([Summary()], steps=4, limit_val_batches=1, val_check_interval=2, before=True)
    shown = capfd.readouterr().out
    lines = [re.split(r"\s*│\s*", line.strip("│ ")) for line in shown.splitlines()]
    rows = {cells[0]: cells[1:] for cells in lines if len(cells) == 4}
    assert rows["evaluated at rollout"] == ["0", "2", "4"]
    assert rows["avg@8"] == ["0.100", "0.300", "0.500"]
    assert rows["95 % interval"] == ["0.050 - 0.150", "0.250 - 0.350", "0.450 - 0.550"]
    assert rows["entropy"] == ["0.300", "0.150", "0.075"]


def test_a_resumed_run_remembers_what_came_before(run, tmp_path):
    run(
        [Summary(), saving(2)],
        steps=2,
        enable_checkpointing=True,
        before=True,
        limit_val_batches=1,
    )
    second, path = Summary(), tmp_path / "checkpoints" / "last.ckpt"
    run(
        [second, saving(2)],
        steps=4,
        enable_checkpointing=True,
        ckpt_path=path,
    )
    assert len(second.rollouts) == 4 and second.evaluations[0][0] == 0


def test_an_evaluation_has_its_place_by_the_rollouts_before_it():
    first, third, last = (0, {}), (3, {}), (10, {})
    assert before_during_after([first, (1, {}), third, last], 10) == [first, third, last]
    assert before_during_after([third], 10) == [None, third, None]
    assert before_during_after([first], 0) == [first, None, None]


def test_the_middle_is_the_middle():
    assert thirds([5.0]) == [5, 5, 5]
    assert thirds([float(i) for i in range(30)]) == [1, 14, 28]


def test_the_precision_of_what_learns_is_said(run, capsys):
    run([Summary()], steps=1)
    assert "weights and optimizer state in float32" in capsys.readouterr().out


def test_a_run_ends_with_a_picture(run, tmp_path):
    run([Curves()], steps=3)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_drawn_does_not_undo_a_run(run, tmp_path):
    (tmp_path / "curves.png").mkdir()
    with pytest.warns(UserWarning, match=r"No curves\.png: IsADirectoryError"):
        run([Curves()], steps=1)


def test_without_metrics_it_says_why_there_is_none(tiny, tmp_path):
    trainer = Trainer(default_root_dir=tmp_path, accelerator="cpu", logger=False, enable_checkpointing=False)
    with pytest.warns(UserWarning, match="add logger=csv"):
        Curves().on_fit_end(trainer, tiny())
    assert not (tmp_path / "curves.png").exists()
