"""What an evaluation would take, asked of what is not here."""

from pathlib import Path

import pytest

from isentropic.config.build import BadInput
from isentropic.judge import judge

SHIPPED = Path(__file__).parents[2] / "src" / "isentropic" / "assets" / "countdown"


def test_a_dry_run_counts_sets_that_are_not_here_as_published(tmp_path, capsys):
    by = ["subject=Qwen/Qwen2.5-7B", "evaluation/protocol=just_rl", "dry_run=true", "card=h100"]
    lying = tmp_path / "aime24"
    lying.mkdir()
    (lying / "test.jsonl").write_text('{"problem": "1+1=", "answer": "2"}\n')
    judge([*by, f"paths.data={tmp_path}"])
    said = capsys.readouterr().out
    assert "aime25, amc23, brumo25, cmimc25, hmmt25, math500, minerva, olympiad: counted as published" in said
    assert "'evaluation.protocol.only=[aime24]' leaves them out" in said
    assert said.splitlines()[-1].split()[1] == f"{1 + 30 + 40 + 30 + 40 + 30 + 500 + 272 + 675:,}"
    (lying / "test.jsonl").write_text('{"text": "1+1=", "answer": "2"}\n')
    judge([*by, f"paths.data={tmp_path}"])
    assert "aime24 is left out: " in capsys.readouterr().out


def test_a_dry_run_knows_the_model_of_a_run_and_of_a_server(quickstart, tmp_path, capsys):
    run, _ = quickstart
    judge([f"subject={run}", "dry_run=true"])
    assert "countdown[4]" in capsys.readouterr().out
    judge(["subject=http://127.0.0.1:9", f"server.tokenizer={SHIPPED}", "dry_run=true", "experiment=quickstart"])
    assert "http://127.0.0.1:9 on 1 x " in capsys.readouterr().out
    with pytest.raises(BadInput, match="dry_run=yes is neither true nor false"):
        judge([f"subject={SHIPPED}", "dry_run=yes"])
