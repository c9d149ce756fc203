from csv import DictReader
from math import isfinite

import pytest

from isentropic.callbacks.rollout import RolloutReport
from isentropic.callbacks.weight_sync import WeightSync
from isentropic.rollout.curation.informative import Informative
from isentropic.rollout.curation.overlong import Overlong


def train(parts, folder, answer, **settings):
    module, data = parts.learner(), parts.rollouts(parts.scripted(answer), **settings)
    parts.trainer(folder, [RolloutReport(print_example=False), WeightSync(1e-3, 8)]).fit(module, data)
    rows = list(DictReader((folder / "metrics.csv").open()))
    return [{n.removeprefix("rollout/"): float(v) for n, v in row.items() if n.startswith("rollout/")} for row in rows]


def test_each_rollout_is_described_before_it_is_learnt_from(parts, tmp_path):
    def answer(value):
        return [str(value)[0], "<eos>"] if value < 10 else ["<eos>"], [*"++++"]

    rows = train(parts, tmp_path, answer)
    values = [p.reference for p in parts.sums().problems("train")[:12]]
    for step, row in enumerate(rows):
        right = sum(value < 10 for value in values[4 * step : 4 * step + 4]) / 4
        assert row["reward"] == row["correct"] == row["asked_correct"] == pytest.approx(right / 2)
        assert row["all_wrong"] == pytest.approx(1 - right) and row["all_right"] == 0
        assert row["truncated"] == 0.5 and row["unparseable"] == pytest.approx(1 - right / 2)
        assert row["length"] == pytest.approx((4 + 2 * right + 1 - right) / 2)
        assert row["tries"] == 1 and row["filled"] == 1 and row["timeout"] == row["crash"] == 0
    assert len(rows) == 3


def test_a_rollout_that_could_not_be_filled_is_said(parts, tmp_path, capsys):
    def answer(value):
        return ([*str(value), "<eos>"], ["+"]) if value == 10 else (["+"],)

    rows = train(parts, tmp_path, answer, curation={"informative": Informative(0.0, 1.0)}, max_tries=2)
    short = [step for step, row in enumerate(rows, start=1) if row["filled"] < 1]
    said = " ".join(capsys.readouterr().out.split())
    assert short
    for step in short:
        kept = f"{rows[step - 1]['filled']:.0%}"
        assert f"rollout {step}: {kept} of the groups wanted were kept after 2 tries; training on what there is" in said


def test_a_full_rollout_is_not_worth_a_word(parts, tmp_path, capsys):
    train(parts, tmp_path, parts.some_right)
    assert "groups wanted" not in capsys.readouterr().out


def test_answers_that_are_all_cut_off_teach_nothing_and_leave_finite_metrics(parts, tmp_path):
    curation = {"informative": Informative(0.0, 1.0), "overlong": Overlong(max_length=6, buffer=3, count="chosen")}
    for settings in ({}, {"curation": curation}):
        module, data = parts.learner(mini_batch=8), parts.rollouts(parts.scripted(lambda _: [[*"++++++"]]), **settings)
        parts.trainer(tmp_path, [RolloutReport(print_example=False), WeightSync(1e-3, 8)]).fit(module, data)
        rows = list(DictReader((tmp_path / "metrics.csv").open()))
        assert len(rows) == 3
        for row in rows:
            assert all(isfinite(float(value)) for value in row.values() if value)
            assert float(row["rollout/truncated"]) == 1 and float(row["policy/grad_norm"]) == 0
