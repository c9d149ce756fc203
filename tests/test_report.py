import csv

import pytest

from isentropic.report import main


@pytest.fixture
def folder(tmp_path):
    def write(name, end):
        (tmp_path / name).mkdir()
        with (tmp_path / name / "metrics.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, ["step", "entropy/mean", "rollout/reward", "rollout/length", "eval/avg@8"])
            writer.writeheader()
            for step in range(21):
                row = {"step": step, "entropy/mean": 0.3 - step / 20 * (0.3 - end), "rollout/reward": step / 20}
                writer.writerow(row | {"rollout/length": 20, "eval/avg@8": step / 40 if step % 10 == 0 else ""})
        return f"{name}={tmp_path / name}"

    return write


def test_runs_become_one_table_and_one_picture(folder, tmp_path, capsys):
    main([str(tmp_path / "out.png"), folder("high", 0.2), folder("low", 0.1)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| run | rollouts | entropy: start | middle | end | avg@8: base | avg@8: end |"
    assert [line.split(" | ")[-3:] for line in lines[2:4]] == [
        ["0.203", "0.000", "0.500 |"],
        ["0.105", "0.000", "0.500 |"],
    ]
    assert (tmp_path / "out.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("arguments", [[], ["out.png"], ["out.png", "folder"]])
def test_a_wrong_command_line_gets_the_usage(arguments):
    with pytest.raises(SystemExit, match=r"usage: python -m isentropic\.report"):
        main(arguments)


def test_a_folder_without_metrics_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"no metrics\.csv in"):
        main([str(tmp_path / "out.png"), f"nothing={tmp_path}"])
