"""Also a program, run once per rank: a run of two."""

import os
import sys
from csv import DictReader
from pathlib import Path

import pytest
import torch
from fixtures.models import saving

from isentropic.callbacks.evaluate import Evaluate
from isentropic.callbacks.weight_sync import WeightSync


def judged(module):
    """Which problems are judged, with how many right, after how many rollouts; as the run goes."""
    seen, step = [], module.validation_step

    def noted(answers, batch_idx):
        seen.append((module.rollouts, answers.group.tolist(), answers.tokens.tolist()))
        return step(answers, batch_idx)

    module.validation_step = noted
    return seen


def train(parts, folder, steps, ckpt_path=None, extra=(), **settings):
    sampler, module = parts.scripted(parts.some_right), parts.learner()
    seen = judged(module)
    callbacks = [WeightSync(1e-3, 8), Evaluate(), *extra]
    trainer = parts.trainer(folder, callbacks, limit_val_batches=1.0, **settings)
    trainer.fit(module, parts.rollouts(sampler, steps=steps), ckpt_path=ckpt_path, weights_only=True)
    return seen


def times(seen):
    return list(dict.fromkeys(rollouts for rollouts, _, _ in seen))


@pytest.mark.parametrize(("steps", "expected"), [(4, [0, 2, 4]), (5, [0, 2, 4, 5])])
def test_the_policy_is_judged_before_between_and_after_each_time_once(parts, tmp_path, steps, expected):
    seen = train(parts, tmp_path, steps, val_check_interval=2)
    assert times(seen) == expected
    batches = [[(groups, tokens[0][:4]) for when, groups, tokens in seen if when == time] for time in expected]
    assert [groups for groups, _ in batches[0]] == [[0, 0, 1, 1], [2, 2]]
    assert all(batch == batches[0] for batch in batches)
    rows = [row for row in DictReader((tmp_path / "metrics.csv").open()) if row["eval/avg@2"]]
    assert [float(row["step"]) for row in rows] == expected
    assert all(float(row["eval/avg@2"]) == 0.5 for row in rows)


def test_an_interval_beyond_the_last_rollout_leaves_start_and_end(parts, tmp_path):
    assert times(train(parts, tmp_path, 2, val_check_interval=100, check_val_every_n_epoch=None)) == [0, 2]


def test_a_run_that_goes_on_judges_nothing_twice(parts, tmp_path):
    first = train(parts, tmp_path, 2, val_check_interval=2, extra=[saving(1)])
    last = tmp_path / "checkpoints" / "last.ckpt"
    (tmp_path / "metrics.csv").rename(tmp_path / "metrics.1.csv")  # as training does, lest the logger delete it
    second = train(parts, tmp_path, 5, val_check_interval=2, ckpt_path=last)
    assert times(first) == [0, 2] and times(second) == [4, 5]


def test_a_run_that_was_stopped_before_an_evaluation_that_was_due_makes_up_for_it(parts, tmp_path):
    train(parts, tmp_path, 2, val_check_interval=2, extra=[saving(1)])
    *lines, evaluation = (tmp_path / "metrics.csv").read_text().splitlines(keepends=True)
    assert "0.5" in evaluation
    last = tmp_path / "checkpoints" / "last.ckpt"
    for missing in (False, True):
        (tmp_path / "metrics.1.csv").write_text("".join([*lines, *([] if missing else [evaluation])]))
        assert times(train(parts, tmp_path, 3, val_check_interval=2, ckpt_path=last)) == ([2, 3] if missing else [3])


def test_in_another_folder_the_one_of_the_checkpoint_tells(parts, tmp_path):
    train(parts, tmp_path / "one", 2, val_check_interval=2, extra=[saving(1)])
    last = tmp_path / "one" / "checkpoints" / "last.ckpt"
    assert times(train(parts, tmp_path / "two", 3, val_check_interval=2, ckpt_path=last)) == [3]
    (tmp_path / "one" / "metrics.csv").unlink()
    assert times(train(parts, tmp_path / "three", 3, val_check_interval=2, ckpt_path=last)) == [2, 3]


def test_without_validation_nothing_is_judged(parts, tmp_path):
    module = parts.learner()
    seen = judged(module)
    callbacks = [WeightSync(1e-3, 8), Evaluate()]
    parts.trainer(tmp_path, callbacks).fit(module, parts.rollouts(parts.scripted(parts.some_right), steps=1))
    assert module.rollouts == 1 and seen == []


@pytest.mark.slow
def test_two_ranks_judge_every_problem_once(forks, world, tmp_path):
    for rank in forks(__file__, *(([tmp_path], variables) for variables in world(2))):
        assert rank.returncode == 0, rank.stderr
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    assert [times(seen) for seen in found] == [[0, 2], [0, 2]]
    for time in (0, 2):
        groups = [group for seen in found for when, groups, _ in seen if when == time for group in groups]
        assert sorted(groups) == [0, 0, 1, 1, 2, 2]
    rows = [row for row in DictReader((tmp_path / "metrics.csv").open()) if row["eval/avg@2"]]
    assert [float(row["step"]) for row in rows] == [0, 2]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from types import SimpleNamespace

    from fixtures import models

    folder, rank = Path(sys.argv[1]), os.environ["LOCAL_RANK"]
    model = models.save_tiny_model(folder / f"model{rank}", tied=True)
    parts = SimpleNamespace(
        scripted=models.scripted,
        some_right=models.some_right,
        rollouts=lambda sampler, **settings: models.rollouts(model, sampler, **settings),
        learner=lambda: models.learner(model),
        trainer=models.trainer_of,
    )
    seen = train(parts, folder, 2, val_check_interval=2, devices=2, strategy="ddp")
    torch.save(seen, folder / f"{rank}.pt")
