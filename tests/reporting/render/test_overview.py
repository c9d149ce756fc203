from isentropic.reporting.analysis.groups import group
from isentropic.reporting.render.curve_figures import curve_lines, draw
from isentropic.reporting.render.overview import overview
from isentropic.runs.run import find


def drawn(folder, out):
    runs = find([folder])
    groups, included = group(runs).groups, {run.folder for run in runs}
    return draw(overview(groups, included, curve_lines(groups, included), out), many=False)


def test_entropy_and_scores_are_one_picture(sweep, tmp_path):
    (picture,) = drawn(sweep(), tmp_path)
    assert (tmp_path / "overview.png").is_file() and (tmp_path / "overview.svg").read_text().count("grpo (n = 3)") == 1
    for metric in ("entropy (nats per token)", "avg@8 on held-out problems", "pass@16 on held-out problems"):
        assert f"Curves of {metric} over rollouts: grpo goes from " in picture.alt


def test_of_many_groups_the_lines_are_drawn(sweep, tmp_path):
    (picture,) = drawn(sweep(bases=[(f"m{i}", 0.1 + 0.01 * i) for i in range(8)]), tmp_path)
    assert (tmp_path / "overview.svg").read_text().count("(n = 3)") == 8 and "without their intervals" in picture.note


def test_there_is_none_of_one_metric(a_run, tmp_path):
    assert drawn(a_run(tmp_path / "alone", scores={}), tmp_path) == []
