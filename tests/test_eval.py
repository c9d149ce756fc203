"""Checkpoints judged alone score as they did in their run."""

import csv
import json
from pathlib import Path

import pytest

from isentropic.eval import evaluate


def judged(run: Path, step: int) -> dict[str, float]:
    with (run / "metrics.csv").open() as file:
        (row,) = (row for row in csv.DictReader(file) if row["step"] == str(step) and row["eval/avg@8"])
    return {k.removeprefix("eval/"): float(v) for k, v in row.items() if k.startswith("eval/")}


@pytest.mark.slow
def test_the_last_checkpoint_scores_as_at_the_end_of_its_run(ranked, short, tmp_path):
    path, asked = short / "checkpoints" / "last.ckpt", ["algorithm=grpo", "sampler=transformers"]
    result = ranked("eval", *asked, f"ckpt_path={path}", f"hydra.run.dir={tmp_path}/eval", ranks=1)
    assert result.returncode == 0, result.stderr
    scores = json.loads((tmp_path / "eval" / "scores.json").read_text())
    assert (scores.pop("checkpoint"), scores.pop("split")) == (str(path), "test")
    assert scores == pytest.approx(judged(short, 1))
    assert {"avg@8", "avg@8_low", "avg@8_high", "pass@16", "pass@16_low", "pass@16_high"} == set(scores)
    assert '"pass@16"' in result.stdout


def test_without_a_checkpoint_the_base_model_is_judged(inside, short):
    folder = inside(evaluate, "ckpt_path=null")
    scores = json.loads((folder / "scores.json").read_text())
    assert (scores.pop("checkpoint"), scores.pop("split")) == (None, "test")
    assert scores == pytest.approx(judged(short, 0))
