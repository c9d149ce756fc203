import os
import subprocess
import sys
from pathlib import Path

import pytest

optuna = pytest.importorskip("optuna", reason="optuna is not installed: pip install -e .[dev]")
ROOT = Path(__file__).parents[2]
# The target is logged as it is drawn, so what is best and what falls behind is known beforehand.
TINY = ["experiment=quickstart", "algorithm=stare", "algorithm.control.target=0.1..0.3", "sampler=transformers",
        "rollout.batch_size=16", "rollout.steps=4", "+trainer.limit_val_batches=0", "policy.optimization.mini_batch=16",
        "policy.optimization.micro_batch=16", "--metric=control/target", "--startup=1"]  # fmt: skip


def tune(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "isentropic", "tune", str(folder), *arguments], env=os.environ | settings, text=True,
        capture_output=True, timeout=300,
    )  # fmt: skip


@pytest.mark.slow
def test_a_search_goes_on_where_it_was_and_stops_what_falls_behind(forks, tmp_path):
    from isentropic.commands.search_space import parse
    from isentropic.commands.tune import Search, study_of

    first = tune(tmp_path / "s", *TINY, "--trials=1")
    assert first.returncode == 0, first.stderr
    assert "split: validation" in (tmp_path / "s" / "0" / "config.yaml").read_text()
    (second,) = forks("isentropic", (["tune", tmp_path / "s", *TINY, "--trials=2"], {}))
    assert second.returncode == 0 and "trial 0" not in second.stdout.partition("|")[0], second.stdout
    table = [line.strip("| ").split(" | ") for line in second.stdout.splitlines() if line.startswith("|")][2:]
    assert [row[-1] for row in table] == ["done", "stopped"]
    assert float(table[1][2]) < float(table[0][2])
    assert int(table[1][3]) < 4, "the second was not stopped before its end"
    assert second.stdout.rstrip().endswith(f"algorithm.control.target={table[0][1]}"), second.stdout
    fixed, spaces = parse([one.replace("..0.3", "..0.5") for one in TINY if not one.startswith("--")])
    with pytest.raises(ValueError, match="holds a search with spaces"):
        study_of(Search(tmp_path / "s", fixed, spaces, "control/target", 2, 1))


def test_a_trial_whose_search_was_killed_goes_on_in_its_folder(tmp_path):
    from isentropic.commands.search_space import Range
    from isentropic.commands.tune import Search, place, study_of
    from isentropic.runs.status import recorded

    search = Search(tmp_path, [], [Range("a", 0.0, 1.0, whole=False, log=False)], "eval/avg@8", 3, 1)
    killed = study_of(search).ask()
    search.spaces[0].draw(killed)
    (tmp_path / place(killed)).mkdir()
    with recorded(tmp_path / place(killed), []), pytest.raises(ValueError, match=r"trial 0 .* still runs, in process"):
        study_of(search)
    again = study_of(search).ask()
    search.spaces[0].draw(again)
    assert (again.number, again.params, place(again)) == (1, killed.params, "0")


def test_a_search_whose_trials_cannot_begin_says_why(tmp_path):
    result = tune(tmp_path, "experiment=quickstart", "algorithm.control.targett=0.1..0.3")
    assert result.returncode == 2 and result.stderr.startswith("error: trial 0 could not begin (algorithm.control.")
    assert "did you mean target?" in result.stderr and len(result.stderr.splitlines()) == 1
