import re
from xml.etree import ElementTree

import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.image import imread

from isentropic.reporting.analysis.groups import group
from isentropic.reporting.render.curve_figures import curve_lines, curve_pictures, draw
from isentropic.reporting.render.style import save
from isentropic.runs.run import find

TARGET = {"entropy/mean": [0.3 - 0.004 * i for i in range(40)], "control/target": [0.15] * 40}


def pictures(folder, out, left_out=()):
    runs = find([folder])
    included = {run.folder for run in runs if run.folder.name not in left_out}
    groups = group(runs).groups
    found = draw(curve_pictures(groups, included, curve_lines(groups, included), out), many=False)
    return {picture.name: picture for picture in found}


def texts(path):
    return " ".join(
        "".join(node.itertext()) for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    )


def test_each_metric_is_drawn_as_picture_and_as_vectors(sweep, tmp_path):
    found = pictures(sweep(metrics=TARGET), tmp_path)
    assert set(found) == {"eval_avg_at_8_rollouts", "eval_pass_at_16_rollouts", "entropy_mean_rollouts"}
    for name in found:
        pixels = imread(tmp_path / f"{name}.png")
        assert pixels.shape[1] > 1000 and 0.005 < (pixels[..., :3] < 0.9).any(-1).mean() < 0.5
        assert "grpo (n = 3)" in texts(tmp_path / f"{name}.svg")


def test_the_alt_text_says_what_there_is_to_see(sweep, tmp_path):
    found = pictures(sweep(metrics=TARGET), tmp_path, left_out=("grpo_0",))
    alt = found["entropy_mean_rollouts"].alt
    assert re.search(
        r"grpo goes from 0\.\d+ to 0\.\d+ with 2 seeds; stare goes .* \(95 % interval .*\) with 3 seeds", alt
    )
    assert "A band marks 20% around the target of 0.15." in alt and alt.endswith("1 run left out of the means.")
    assert "grpo, left out" in texts(tmp_path / "entropy_mean_rollouts.svg")


def test_what_was_measured_once_is_no_curve(a_run, tmp_path):
    for seed in range(2):
        a_run(tmp_path / "s" / str(seed), seed, scores={"eval/avg@8": [0.2, 0.4], "eval/t0.5/avg@16": ["", 0.5]})
    assert set(pictures(tmp_path / "s", tmp_path)) == {"eval_avg_at_8_rollouts", "entropy_mean_rollouts"}


@pytest.mark.slow
def test_equal_cost_is_an_axis_where_it_was_logged(sweep, tmp_path):
    spent = {"throughput/tokens": list(range(40)), "throughput/seconds": list(range(40))}
    found = pictures(sweep(metrics=TARGET | spent), tmp_path)
    assert [found[f"eval_avg_at_8_{axis}"].axis for axis in ("tokens", "seconds")] == ["tokens", "seconds"]
    assert "generated tokens" in texts(tmp_path / "entropy_mean_tokens.svg")


def test_many_groups_get_a_panel_each(sweep, tmp_path):
    found = pictures(sweep(seeds=(0,), bases=[(f"m{i}", 0.1 * i) for i in range(8)]), tmp_path)
    written = texts(tmp_path / "eval_avg_at_8_rollouts.svg")
    assert all(f"m{i}" in written for i in range(8)) and len(found) == 3


@pytest.mark.parametrize("label", ["_a $x^2 label", "back\\slash <b>&"])
def test_a_name_is_drawn_as_it_is(a_run, tmp_path, label):
    runs = find([a_run(tmp_path / "run", scores={})], label)
    groups, included = group(runs).groups, {run.folder for run in runs}
    draw(curve_pictures(groups, included, curve_lines(groups, included), tmp_path), many=False)
    assert label in texts(tmp_path / "entropy_mean_rollouts.svg")


def test_a_picture_is_drawn_once_for_each_of_its_files(monkeypatch, tmp_path):
    whole, drawn = Figure.draw, []
    monkeypatch.setattr(Figure, "draw", lambda figure, renderer: (drawn.append(figure), whole(figure, renderer)))
    figure = Figure(layout="constrained")
    figure.subplots().plot([1, 2])
    with rc_context({"figure.constrained_layout.use": True}):  # a reader's own setting
        save(figure, tmp_path, "one")
    assert len(drawn) == len([*tmp_path.iterdir()]) == 3


def test_the_same_picture_is_the_same_file(sweep, tmp_path):
    runs = sweep(seeds=(0,))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert pictures(runs, tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
