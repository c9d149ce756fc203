import numpy as np
import pytest

from isentropic.reporting.analysis.groups import group
from isentropic.reporting.analysis.scores import scores
from isentropic.reporting.render.curve_figures import draw
from isentropic.reporting.render.score_figures import at_k, inner, score_pictures
from isentropic.runs.run import find

KS = (1, 2, 4, 8)


@pytest.fixture
def found(a_run, tmp_path):
    def make(same=False):
        for method in ("grpo", "stare"):
            for seed in range(3):
                level = 0.3 if same else 0.3 + 0.01 * seed + 0.1 * (method == "stare")
                ends = {f"eval/t0.5/pass@{k}": [0.1, level + 0.05 * np.log2(k)] for k in KS}
                a_run(
                    tmp_path / "s" / f"{method}{seed}", seed=seed, config={"m": method}, overrides=[f"m={method}"],
                    scores={"eval/avg@8": [0.2, level], "eval/maj@8": [0.0, 0.0], **ends},
                )  # fmt: skip
        groups = group(find([tmp_path / "s"])).groups
        return groups, scores(groups, lambda run: True)

    return make


def test_pass_at_k_is_drawn_over_k_and_what_never_differs_is_not(found, tmp_path):
    groups, rows = found()
    assert at_k(rows) == {"eval/t0.5/": {k: f"eval/t0.5/pass@{k}" for k in KS}}
    assert inner(rows) == {f"eval/t0.5/pass@{k}" for k in KS[:-1]}
    pictures = {one.name: one for one in draw(score_pictures(groups, rows, tmp_path), many=False)}
    assert set(pictures) == {"final_avg_at_8", "final_t0.5_pass_at_8", "pass_at_k_t0.5"}
    assert "stare from 0.41 at 1 to 0.56 at 8" in pictures["pass_at_k_t0.5"].alt
    assert (tmp_path / "pass_at_k_t0.5.pdf").read_bytes().startswith(b"%PDF")


def test_scores_that_are_the_same_in_all_runs_have_no_picture(found, tmp_path):
    groups, rows = found(same=True)
    assert [one.metric for one in draw(score_pictures(groups, rows, tmp_path), many=False)] == ["eval/t0.5/pass@k"]
