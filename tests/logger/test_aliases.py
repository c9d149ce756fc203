import sys
from pathlib import Path

import pytest
from lightning.pytorch.loggers import CSVLogger

from isentropic.logger.aliases import END, NAMES, PAGE, START, check, page, renamed
from isentropic.logger.tensorboard import TensorBoard

PEERS = Path(sys.prefix) / "peers"
TASK = "isentropic.task.countdown.Countdown"

# What stands in their source for a name that they put together.
PUT_TOGETHER = {
    "actor/loss": 'final_metrics["loss"] = loss',
    "actor/lr": 'final_metrics["lr"] = lr',
    "actor/grad_norm": 'metrics.get("actor/grad_norm"',
    "timing_s/update_weights": 'marked_timer("update_weights"',
    "val-core/<task>/acc/mean@<k>": '{metric_sec}/{data_source}/{var_name}/{metric_name}"',
    "loss": "def compute_loss(",  # the trainer that TRL's stands on logs it, and the norm
    "grad_norm": "(Trainer)",
    "learning_rate": "(Trainer)",
}


def test_one_metric_is_replaced_and_a_sum_stands_beside_its_parts():
    ours = {"rollout/length": 7.0, "clipping/clipped_low": 0.25, "clipping/clipped_high": 0.5, "control/up": 1.0}
    assert renamed(ours, None, TASK) == ours
    assert renamed(ours, "verl", TASK) == {
        "response_length/mean": 7.0,
        "actor/pg_clipfrac": 0.75,
        "clipping/clipped_low": 0.25,
        "clipping/clipped_high": 0.5,
        "control/up": 1.0,
    }
    assert renamed(ours, "trl", TASK) == {
        "completions/mean_length": 7.0,
        "clip_ratio/low_mean": 0.25,
        "clip_ratio/high_mean": 0.5,
        "clip_ratio/region_mean": 0.75,
        "control/up": 1.0,
    }


def test_a_reward_goes_by_both_names_of_verl_and_a_missing_side_of_the_clipping_counts_nothing():
    names = renamed({"rollout/reward": 0.5, "clipping/clipped_high": 0.125}, "verl", TASK)
    assert names == {
        "critic/score/mean": 0.5, "critic/rewards/mean": 0.5, "actor/pg_clipfrac": 0.125, "clipping/clipped_high": 0.125
    }  # fmt: skip


def test_scores_of_each_k_are_named_after_the_task():
    names = renamed({"eval/avg@8": 0.25, "eval/avg@32": 0.5, "eval/avg@8_low": 0.125, "eval/pass@8": 1.0}, "verl", TASK)
    assert names == {
        "val-core/countdown/acc/mean@8": 0.25, "val-core/countdown/acc/mean@32": 0.5, "eval/avg@8_low": 0.125,
        "eval/pass@8": 1.0,
    }  # fmt: skip


def test_an_alias_that_no_logger_would_write_is_refused(tmp_path):
    csv = CSVLogger(tmp_path)
    check(None, [csv])
    check("trl", [csv, TensorBoard(str(tmp_path), "", "", False, alias="trl", task=TASK)])
    with pytest.raises(ValueError, match=r"logger.alias=trl .* none is chosen"):
        check("trl", [csv])


def test_the_table_in_the_docs_is_of_these_names():
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "docs/metrics.md is stale: python -m isentropic.logger.aliases"
    with pytest.raises(ValueError, match=r"metrics\.md must have the lines"):
        page(text.replace(END, "").replace(START, ""))


@pytest.mark.parametrize(("alias", "package"), [("verl", "verl"), ("trl", "trl/trainer")])
def test_they_have_each_of_these_names(alias, package):
    if not (PEERS / package).is_dir():
        pytest.skip(f"{alias} is not installed: make setup, with Python below 3.13 for verl")
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted((PEERS / package).rglob("*.py")))
    wanted = {name.theirs: PUT_TOGETHER.get(name.theirs, f'"{name.theirs}"') for name in NAMES[alias]}
    assert [theirs for theirs, text in wanted.items() if text not in source] == []
