import pyarrow.parquet as pq
import pytest

from isentropic.reporting.render import parquet
from isentropic.reporting.render.report import findings
from isentropic.runs.run import find


@pytest.fixture
def exported(tmp_path):
    def make(folder):
        report = findings(find([folder]), [folder], "command", (), None, None)
        parquet.runs(report, tmp_path)
        parquet.curves(report, tmp_path)
        return pq.read_table(tmp_path / "runs.parquet"), pq.read_table(tmp_path / "curves.parquet")

    return make


def test_a_row_per_run_holds_settings_scores_and_verdict(exported, sweep):
    runs, _ = exported(sweep())
    rows = runs.to_pylist()
    assert [row["run"] for row in rows] == [f"{m}_{s}" for m in ("grpo", "stare") for s in range(3)]
    first = rows[0]
    assert (first["group"], first["seed"], first["status"], first["included"]) == ("grpo", 0, "done", True)
    assert first["final.eval/avg@8"] == 0.4 and first["config.algorithm.boost"] == 4
    assert first["entropy.drift"] == pytest.approx(-0.1) and first["entropy.words"].startswith("No collapse")


def test_settings_of_several_kinds_become_text(exported, a_run, tmp_path):
    for name, value in (("a", 1), ("b", "one"), ("c", None), ("d", 0.5)):
        a_run(tmp_path / "s" / name, config={"mixed": value, "number": 1 if name == "a" else 0.5})
    runs, _ = exported(tmp_path / "s")
    assert runs["config.mixed"].to_pylist() == ["1", "one", None, "0.5"]
    assert runs["config.number"].to_pylist() == [1.0, 0.5, 0.5, 0.5]


def test_rows_name_no_folders_of_the_machine_that_made_them(exported, a_run, tmp_path):
    config = {
        "policy.model.path": "/models/qwen/base",
        "sampler.url": "http://node7:8000/v1/x",
        "paths.root": "/srv/me",
    }
    a_run(tmp_path / "s" / "a", config=config)
    runs, _ = exported(tmp_path / "s")
    (row,) = runs.to_pylist()
    assert (row["config.policy.model.path"], row["config.sampler.url"]) == ("base", "http://node7:8000/v1/x")
    assert "config.paths.root" not in row and str(tmp_path) not in str(row)


def test_curves_have_a_row_per_rollout_and_nothing_where_nothing_was_logged(exported, sweep):
    _, curves = exported(sweep())
    rows = [row for row in curves.to_pylist() if row["run"] == "grpo_0"]
    assert [row["step"] for row in rows] == list(range(41))
    assert rows[0]["entropy/mean"] is None and rows[0]["eval/avg@8"] == pytest.approx(0.2)
    assert rows[1]["entropy/mean"] == pytest.approx(0.3) and rows[1]["eval/avg@8"] is None


def test_a_run_without_metrics_has_no_curve(exported, a_run, tmp_path):
    a_run(tmp_path / "s" / "a")
    (a_run(tmp_path / "s" / "b", seed=1) / "metrics.csv").write_text("")
    runs, curves = exported(tmp_path / "s")
    assert runs["included"].to_pylist() == [True, False] and set(curves["run"].to_pylist()) == {"a"}
