import csv

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from isentropic.reporting.analysis.smoothing import smooth
from isentropic.reporting.render.run_curves import curves, draw_entropy, load


def write(folder, target, steps=300, seed=0):
    """Rows as the CSV logger leaves them: rollouts and evaluations on lines of their own."""
    folder.mkdir(parents=True)
    noise = np.random.default_rng(seed)
    names = ["step", "entropy/mean", "control/target", "rollout/reward", "rollout/length"]
    names += [f"eval/{score}{end}" for score in ("avg@8", "pass@16") for end in ("", "_low", "_high")]
    with (folder / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for step in range(0, steps + 1):
            if step % 50 == 0:
                avg, best = 0.15 + 0.2 * step / 300, (0.78 - 0.3 * step / 300 if not target else 0.75)
                scores = {"avg@8": avg, "pass@16": best}
                ends = {"": 0.0, "_low": -0.04, "_high": 0.04}
                row = {f"eval/{name}{end}": value + ends[end] for name, value in scores.items() for end in ends}
                writer.writerow({"step": step} | row)
            if step:
                entropy = max(0.3 * np.exp(-step / 60), target or 0.04) + noise.normal(0, 0.008)
                row = {"step": step, "entropy/mean": entropy, "rollout/length": 21 + noise.normal(0, 0.5)}
                row["rollout/reward"] = 0.15 + 0.3 * step / 300 + noise.normal(0, 0.05)
                writer.writerow(row | ({"control/target": target} if target else {}))
    return folder


def is_picture_with_ink(path):
    pixels = imread(path)
    return pixels.shape[0] > 500 and pixels.shape[1] > 500 and 0.005 < (pixels[..., :3] < 0.9).any(-1).mean() < 0.5


def test_the_parts_of_a_resumed_run_are_one_curve_and_the_newest_counts(tmp_path):
    for name, rows in {
        "metrics.1.csv": "1,0.5\n2,0.4",
        "metrics.10.csv": "4,0.2",
        "metrics.copy.csv": "1,9",
        "metrics.csv": "2,0.3\n3,0.25",
    }.items():
        (tmp_path / name).write_text(f"step,entropy/mean\n{rows}\n")
    (tmp_path / "metrics.csv.1").write_text("step,entropy/mean\n9,0.9\n")
    entropy = load(tmp_path)["entropy/mean"]
    assert (entropy.steps.tolist(), entropy.values.tolist()) == ([1, 2, 3, 4], [0.5, 0.3, 0.25, 0.2])


def test_a_run_is_drawn_into_its_folder(tmp_path):
    path = curves(write(tmp_path / "run", target=0.15))
    assert path == tmp_path / "run" / "curves.png" and is_picture_with_ink(path)


def test_the_entropy_of_each_turn_is_drawn_and_named_as_it_is_logged(tmp_path):
    (tmp_path / "metrics.csv").write_text(
        "step,entropy/mean,entropy/turn_0,entropy/turn_1\n1,0.3,0.5,0.1\n2,0.2,0.4,0.1\n"
    )
    axis = Figure().subplots()
    draw_entropy(axis, load(tmp_path))
    drawn = {line.get_label(): line.get_ydata()[-1] for line in axis.get_lines() if str(line.get_label())[0] != "_"}
    assert list(drawn) == ["mean", "turn_0", "turn_1"] and drawn["turn_0"] > drawn["mean"] > drawn["turn_1"]


def test_a_short_run_without_evaluation_is_drawn_too(tmp_path):
    (tmp_path / "metrics.csv").write_text("entropy/mean,step\n0.3,1\n")
    assert is_picture_with_ink(curves(tmp_path))


def test_a_step_logged_twice_counts_as_it_was_last(tmp_path):
    (tmp_path / "metrics.csv").write_text("entropy/mean,rollout/reward,step\n0.3,0.1,1\n0.2,,2\n0.25,0.4,2\n")
    found = load(tmp_path)
    assert found["entropy/mean"].steps.tolist() == [1, 2] and found["entropy/mean"].values.tolist() == [0.3, 0.25]
    assert found["rollout/reward"].values.tolist() == [0.1, 0.4]


def test_a_mean_over_nothing_is_no_point_of_a_curve(tmp_path):
    (tmp_path / "metrics.csv").write_text("entropy/mean,advantage/correct,step\n0.3,nan,1\n0.2,0.5,2\n")
    assert load(tmp_path)["advantage/correct"].steps.tolist() == [2]


def test_a_folder_without_metrics_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"no metrics\.csv"):
        curves(tmp_path)
    (tmp_path / "metrics.csv").write_text("step,entropy/mean\n")
    with pytest.raises(ValueError, match="holds no metrics yet"):
        curves(tmp_path)


def test_the_running_mean_takes_what_there_is_on_either_side():
    line = np.arange(60.0)  # two on either side
    assert np.allclose(smooth(line)[2:-2], line[2:-2])
    assert smooth(line)[[0, 1, -1]].tolist() == [1, 1.5, 58]
    assert smooth(np.array([1.0, 5.0])).tolist() == [1, 5]
