"""Checkpoints judged alone score as they did in their run; what cannot be judged is said at once."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from isentropic.eval import evaluate

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "src" / "isentropic" / "assets" / "countdown"


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("eval", "subject={tmp}/gone", "evaluation/protocol=stare"), "subject={tmp}/gone does not exist"),
        (("eval", "subject={tmp}/gone", "evaluation/protocol=stare", "dry_run=true"), "subject={tmp}/gone does not"),
        (("eval", "subject={tmp}", "evaluation/protocol=stare"), "subject={tmp} is neither a model's folder"),
        (
            ("eval", "subject=http://127.0.0.1:9", "evaluation/protocol=stare"),
            "the server at http://127.0.0.1:9 cannot",
        ),
        (("eval", "subject=http://127.0.0.1:9", "dry_run=true"), "a dry run asks no server; server.tokenizer=..."),
        (("eval", f"subject={SHIPPED}", "evaluation/protocol=stare", "against={tmp}"), "against: {tmp} holds no"),
        (("eval", f"subject={SHIPPED}", "base=/gone"), "base=/gone is the model that a checkpoint started from, and"),
        (("eval", f"subject={SHIPPED}", "server.model=x"), "server.model=x is of a server, and countdown is none"),
        (("eval", "regrade={tmp}/gone", "grader=boxed_string"), "{tmp}/gone holds no problems.jsonl"),
        (("compare", "{tmp}", "{tmp}"), "{tmp} holds no problems.jsonl"),
        (("contamination", "train={tmp}/gone.jsonl", "test=aime24"), "train={tmp}/gone.jsonl is not a file"),
    ],
)
def test_what_is_judged_is_looked_at_before_anything_slow(tmp_path, arguments, said):
    command = [one.format(tmp=tmp_path) for one in arguments]
    watched = (
        "import atexit, runpy, sys; sys.argv[1:] = sys.argv[2:]\n"
        "atexit.register(lambda: print('slow' if 'torch' in sys.modules else 'light'))\n"
        "runpy.run_module('isentropic', run_name='__main__', alter_sys=True)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run(
        [sys.executable, "-c", watched, "isentropic", *command], env=environment, cwd=tmp_path, text=True, check=False,
        capture_output=True,
    )  # fmt: skip
    assert ended.returncode == 2 and ended.stderr.startswith(f"error: {said.format(tmp=tmp_path)}"), ended.stderr
    assert ended.stdout == "light\n" and ended.stderr.count("\n") == 1
