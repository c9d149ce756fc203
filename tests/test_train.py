"""Whole runs: what they leave behind, and that neither an interruption nor more ranks change what is learnt."""

import csv
import json
import math
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from isentropic.algorithm.diagnostics import QUADRANTS
from isentropic.train import tell, train

# Several updates per rollout, a controller that remembers, a rule that ranks over all ranks, a frozen reference, groups
# asked anew.
SETTING = [
    "policy.reference=${policy.model.path}",
    "algorithm.control.target=0.3",
    "rollout/curation=[informative,overlong]",
    "rollout.curation.overlong.max_length=24",
    "rollout.curation.overlong.buffer=12",
    "rollout.max_tries=2",
    "rollout.steps=4",
]
METHOD = ["algorithm=stare_adaptive", "algorithm/penalty=[kl]", *SETTING]
CLOCKS = ("throughput/",)
METRICS = {
    "advantage/correct", "advantage/wrong", "entropy/measured_change", "entropy/predicted_change",
    "entropy/neutral_share", *(f"entropy/{name}{part}" for name in QUADRANTS for part in ("", "_share")),
    *(f"credit/stare_{name}" for name in QUADRANTS), *(f"entropy/q{n}" for n in range(10, 101, 10)),
    "ratio/ess", "ratio/mean", "sampler/ess",
    "clipping/clipped_ceiling", "clipping/clipped_high", "clipping/clipped_low", "control/down", "control/target",
    "control/up", "credit/stare", "eval/avg@8", "eval/avg@8_high", "eval/avg@8_low", "eval/pass@16",
    "eval/pass@16_high", "eval/pass@16_low", "entropy/mean", "policy/empty", "policy/grad_norm", "policy/kept",
    "policy/lr", "policy/loss", "policy/skipped",
    "reward/correct",
    "rollout/all_right", "rollout/all_wrong", "rollout/asked_correct", "rollout/correct", "rollout/crash",
    "rollout/filled", "rollout/length", "rollout/reflection", "rollout/tokens", "throughput/seconds",
    "throughput/tokens", "throughput/read_seconds", "throughput/optimizer_seconds", "throughput/sleep_seconds",
    "rollout/reward", "rollout/timeout", "rollout/tries", "rollout/truncated", "rollout/unparseable",
    "rollout/unsimplified",
    "sampler/cached_share", "sampler/canary_gap", "sampler/idle_share", "sampler/logp_gap", "sampler/logp_gap_max",
    "step",
    "throughput/sample_seconds",
    "throughput/step_seconds", "throughput/sync_seconds", "throughput/tokens_per_second", "throughput/update_seconds",
}  # fmt: skip


def rows(folder: Path, part: str = "policy/loss") -> dict[int, dict[str, float]]:
    """The lines of metrics.csv that hold a metric, by step, without what clocks say."""
    with (folder / "metrics.csv").open() as file:
        lines = [row for row in csv.DictReader(file) if row[part]]
    kept = [{k: float(v) for k, v in row.items() if v and v != "nan" and not k.startswith(CLOCKS)} for row in lines]
    return {int(row["step"]): row for row in kept}


def last(folder: Path) -> dict[str, Any]:
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)


def leaves(node: Any, key: str = "") -> dict[str, Any]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list | tuple) else None
    return {key: node} if items is None else {k: v for n, x in items for k, v in leaves(x, f"{key}/{n}").items()}


def learnt(folder: Path) -> dict[str, Any]:
    """Everything that the next rollout depends on."""
    checkpoint = last(folder)
    kept = ("state_dict", "optimizer_states", "lr_schedulers", "isentropic", "loops")
    del checkpoint["isentropic"]["settings"]  # which decide nothing: they are compared with those of whoever goes on
    return leaves({name: checkpoint[name] for name in kept})


def assert_same(one: dict[str, Any], other: dict[str, Any], tolerance: float) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        if isinstance(value, float | torch.Tensor):
            torch.testing.assert_close(
                value, other[name], rtol=tolerance, atol=tolerance, equal_nan=True, msg=f"{name}: {{}}".format
            )
        else:
            assert value == other[name], f"{name}: {value} is not {other[name]}"


@pytest.fixture(scope="module")
def whole(inside) -> Path:
    """Four rollouts at one go, on one rank."""
    folder = inside(train, *METHOD)
    steps = rows(folder)
    assert list(steps) == [1, 2, 3, 4]
    assert all(row["policy/grad_norm"] > 0 for row in steps.values()), "nothing is learnt, so nothing is compared"
    assert last(folder)["isentropic"]["control"] != {"strength": 1.0}, "the controller's memory does not matter here"
    return folder


def test_a_run_leaves_what_it_is_documented_to_leave(quickstart):
    folder, result = quickstart
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    page = (Path(__file__).parents[1] / "docs" / "start.md").read_text().split("## What is there afterwards")[1]
    told = [name for cell in re.findall(r"^\| (`.+?) \|", page, re.M) for name in re.findall(r"`([^`]+)`", cell)]
    assert {name for name in left if not re.match(r"\.|checkpoints/rollout_", name)} == set(told)
    assert yaml.safe_load((folder / "config.yaml").read_text())["rollout"]["steps"] == 2
    assert "rollout.steps = 2" in (folder / "config_sources.txt").read_text()
    with (folder / "metrics.csv").open() as file:
        assert set(next(csv.reader(file))) == METRICS
    assert list(rows(folder)) == [1, 2] and list(rows(folder, "eval/avg@8")) == [0, 2]
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "2 rollouts" in result.stdout and "pass@16" in result.stdout, result.stdout
    assert result.stdout.rstrip().endswith(f"run folder: {folder}")
    assert result.stderr == ""


def test_the_page_of_metrics_tells_of_each_that_a_run_logs():
    page = (Path(__file__).parents[1] / "docs" / "metrics.md").read_text().split("## Loggers")[0]
    cells = re.findall(r"^\| (`.+?) \|", page, re.M)
    told = [re.sub(r"<\w+>", "[^/]+", name) for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    told += [f"entropy/q{n}" for n in range(10, 101, 10)]
    assert [name for name in METRICS if not any(re.fullmatch(one, name) for one in told)] == []


def test_loggers_beside_the_folder_are_told_the_settings_and_count_in_rollouts(inside):
    folder = inside(train, "logger=many", "logger.alias=verl", "rollout.steps=2")
    assert list(rows(folder)) == [1, 2] and list(rows(folder, "eval/avg@8")) == [0, 2], "not our names in metrics.csv"
    assert yaml.safe_load((folder / "tensorboard" / "hparams.yaml").read_text())["rollout"]["steps"] == 2
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("actor/entropy")] == [1, 2]
    assert [event.step for event in events.Scalars("val-core/countdown/acc/mean@8")] == [0, 2]
    assert "hp_metric" not in events.Tags()["scalars"]


def test_sampler_and_policy_agree_on_every_token(quickstart):
    for row in rows(quickstart[0]).values():
        assert max(row["sampler/logp_gap"], row["sampler/canary_gap"]) < 1e-4
        assert row["sampler/logp_gap_max"] < 1e-3


def test_samples_say_what_each_token_was_worth(quickstart):
    lines = [json.loads(line) for line in (quickstart[0] / "samples.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1] * 8 + [2] * 8
    assert all(len({line["group"] for line in lines[i : i + 8]}) == 1 for i in (0, 8)), "not one whole group"
    for line in lines:
        assert set(line) == {
            "step", "prompt", "completion", "reward", "correct", "truncated", "group", "tokens", "logp", "entropy",
            "sensitivity", "sampler_logp", "ref_logp", "new_logp", "new_entropy", "new_sensitivity", "advantages",
            "kept", "texts", "estimate", "weight", "ratio", "limits", "clipped", "touched",
        }  # fmt: skip
        assert line["ref_logp"] is None
        known = ("tokens", "logp", "entropy", "sensitivity", "sampler_logp", "new_logp", "advantages", "kept")
        lengths = {len(line[name]) for name in known}
        assert len(lengths) == 1 and 0 < lengths.pop() <= 32
        assert all(math.isfinite(x) and x <= 0 for x in line["logp"])


@pytest.mark.slow
def test_a_run_in_the_folder_of_another_keeps_its_metrics(inside, capsys):
    folder = inside(train, "rollout.steps=1", "rollout.batch_size=16")
    before = (folder / "metrics.csv").read_text()
    inside(train, "rollout.batch_size=16", f"ckpt_path={folder}/checkpoints/last.ckpt", folder=folder)
    assert (folder / "metrics.1.csv").read_text() == before
    assert list(rows(folder)) == [2]
    assert "kept in" in capsys.readouterr().out
    inside(train, "rollout.steps=1", "rollout.batch_size=16", folder=folder)
    assert (folder / "metrics.1.csv.1").read_text() == before, "a run from the start has parts of another"
    assert {file.name for file in folder.glob("metrics*.csv")} == {"metrics.csv"} and list(rows(folder)) == [1]


@pytest.mark.slow
def test_a_finished_run_that_goes_on_equals_one_that_never_ended(inside, whole):
    half = inside(train, *METHOD, "rollout.steps=2")
    rest = inside(train, *METHOD, f"ckpt_path={half}/checkpoints/last.ckpt")
    assert_same(learnt(rest), learnt(whole), 0)
    assert {**rows(half), **rows(rest)} == rows(whole)
    assert rows(rest, "eval/avg@8")[4] == rows(whole, "eval/avg@8")[4]


@pytest.mark.slow
def test_ctrl_c_saves_ends_the_engine_and_the_rest_equals_a_run_that_never_stopped(start, inside, whole, tmp_path):
    process = start("train", *METHOD, "sampler=transformers", f"hydra.run.dir={tmp_path}/run")
    for line in process.stdout:
        if line.startswith("step 1/4"):
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate(timeout=300)
    stopped = len(rows(tmp_path / "run"))
    assert 1 <= stopped < 4, out + err
    assert process.returncode == 130, err
    assert err == "Stopping after this rollout, with a checkpoint; again stops at once.\n"
    assert f"ckpt_path={tmp_path}/run/checkpoints/last.ckpt" in out
    assert last(tmp_path / "run")["isentropic"]["rollouts"] == stopped
    rest = inside(train, *METHOD, f"ckpt_path={tmp_path}/run/checkpoints/last.ckpt")
    assert_same(learnt(rest), learnt(whole), 0)
    assert {**rows(tmp_path / "run"), **rows(rest)} == rows(whole)


# Ranks that drop groups go on alone. STEER weighs by the largest of all ranks: a rule that ranks tokens would take
# another where two are equal but for rounding, as tokens after equal prefixes are, and all later numbers with it.
SPREAD = [
    "algorithm=steer",
    "algorithm/control=gate",
    "algorithm.control.step=0.1",
    "algorithm/penalty=[kl,entropy_bonus]",
]
SPREAD += [*SETTING, "rollout/curation=[overlong]", "rollout.steps=3"]
SPREAD += ["policy.optimization.micro_batch=4"]
ON_RANKS = ["trainer=fsdp", "trainer.accelerator=cpu", "~callbacks.curves"]


@pytest.mark.numeric
@pytest.mark.slow
def test_two_sharded_ranks_learn_what_one_learns_and_runs_go_on_with_more_ranks_or_fewer(ranked, inside, tmp_path):
    alone = inside(train, *SPREAD)
    first = inside(train, *SPREAD, "rollout.steps=1")
    sharded = ["sampler=transformers", *ON_RANKS, "rollout.steps=2", "callbacks.checkpoint.sharded=true"]
    sharded += ["policy.optimization.sharded_gradients=true"]
    going_on = [f"ckpt_path={first}/checkpoints/last.ckpt", f"hydra.run.dir={tmp_path}/run"]
    result = ranked("train", *SPREAD, *sharded, *going_on, ranks=2)
    assert result.returncode == 0, result.stderr
    folder = tmp_path / "run" / "checkpoints"
    assert {path.name for path in folder.iterdir()} == {"last.ckpt", "rollout_2.ckpt"}
    assert len(list((folder / "last.ckpt").glob("*.distcp"))) == 2, "not a file of each rank"
    rest = inside(train, *SPREAD, f"ckpt_path={folder}/last.ckpt")
    steps = {**rows(first), **rows(tmp_path / "run"), **rows(rest)}
    assert_same(leaves(steps), leaves(rows(alone)), 1e-5)
    assert_same(learnt(rest), learnt(alone), 1e-5)
    assert result.stdout.count("run folder") == 1


def selections(folder: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    """Of the first rollout, by prompt and tokens: what STARE read of each token, and the tokens that it chose."""
    lines = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    kept = [line for line in lines if line["step"] == 1]
    return {(line["prompt"], str(line["tokens"]), line["reward"] > 0): line for line in kept}


@pytest.mark.slow
def test_two_ranks_choose_the_tokens_that_one_chooses_but_for_near_ties(ranked, inside, tmp_path):
    """On rank 0's half of the answers, after one update of all, so that every number but the choice is the same."""
    once = ["algorithm=stare_c2", "algorithm/penalty=[kl]", *SETTING, "rollout/curation=[overlong]", "rollout.steps=1"]
    once += ["algorithm.control.target=9", "callbacks.samples.groups=64"]
    once += ["policy.optimization.mini_batch=${rollout.batch_size}", "policy.optimization.micro_batch=4"]
    alone = selections(inside(train, *once))
    ranks = ["sampler=transformers", *ON_RANKS, f"hydra.run.dir={tmp_path}/run"]
    result = ranked("train", *once, *ranks, ranks=2)
    assert result.returncode == 0, result.stderr
    both = selections(tmp_path / "run")
    least = {True: math.inf, False: math.inf}  # surprisal of a chosen token, by the sign of the advantage
    for line in alone.values():
        for place in line["touched"]["stare"]:
            good = line["advantages"][place] > 0
            least[good] = min(least[good], -line["logp"][place])
    chosen = 0
    for key, line in both.items():
        other = alone[key]
        assert line["logp"] == pytest.approx(other["logp"], abs=1e-5)
        chosen += len(line["touched"]["stare"])
        for place in set(line["touched"]["stare"]) ^ set(other["touched"]["stare"]):
            surprisal, limit = -other["logp"][place], least[other["advantages"][place] > 0]
            assert abs(surprisal - limit) < 1e-5, f"{surprisal} of token {place} is not at the threshold {limit}: {key}"
    assert len(both) > 8 and chosen > 8, (len(both), chosen)


@pytest.mark.slow
def test_adapters_learn_alike_on_one_rank_and_on_two_and_are_saved_alone(ranked, inside, tmp_path):
    adapted = [*SPREAD, "policy/adapter=lora", "policy.adapter.rank=4"]
    alone = inside(train, *adapted)
    first = inside(train, *adapted, "rollout.steps=1")
    two, one = tmp_path / "two", tmp_path / "one"
    ranks = [*adapted, "sampler=transformers", *ON_RANKS]
    for steps, start, folder, devices, more in (
        (2, first, two, 2, ["callbacks.checkpoint.sharded=true"]),
        (3, two, one, 1, ["trainer.devices=1"]),
    ):
        result = ranked(
            "train", *ranks, *more, f"rollout.steps={steps}", f"ckpt_path={start}/checkpoints/last.ckpt",
            f"hydra.run.dir={folder}", ranks=devices,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
    steps = {**rows(first), **rows(two), **rows(one)}
    assert_same(leaves(steps), leaves(rows(alone)), 1e-4)
    assert_same(learnt(one), learnt(alone), 1e-4)
    assert all(".lora_" in name for name in last(one)["state_dict"])


ONCE = ["algorithm=grpo", "policy.optimization.mini_batch=32", "policy.optimization.micro_batch=4"]


@pytest.fixture(scope="module")
def twice(inside) -> Path:
    """On one rank, padded, and with log-probs read again before the update."""
    return inside(train, *ONCE, "policy.skip_old_logp_forward=false")


@pytest.mark.slow
@pytest.mark.parametrize("share", ["false", "true"])
def test_two_sharded_ranks_that_pack_and_read_once_learn_what_one_learns_without(ranked, twice, tmp_path, share):
    packed = ["sampler=transformers", *ON_RANKS, "policy.model.packing=true"]
    packed += [f"policy.model.share_prompts={share}"]
    packed += ["policy.model.activation_checkpointing=selective", "policy.optimization.max_tokens_per_micro_batch=100"]
    packed += ["policy.optimization.micro_batch=null", "policy.optimization.sharded_gradients=true"]
    result = ranked("train", *ONCE, *packed, f"hydra.run.dir={tmp_path}/run", ranks=2)
    assert result.returncode == 0, result.stderr
    assert_same(leaves(rows(tmp_path / "run")), leaves(rows(twice)), 1e-5)
    assert_same(learnt(tmp_path / "run"), learnt(twice), 1e-5)


@pytest.mark.slow
def test_an_engine_gets_weights_with_adapters_merged_in(inside):
    adapted = ["policy/adapter=lora", "policy.adapter.rank=4", "policy.optimization.lr=0.03"]
    steps = rows(inside(train, *adapted, "evaluation=[]"))
    for row in steps.values():
        assert max(row["sampler/logp_gap"], row["sampler/canary_gap"]) < 1e-4
    assert abs(steps[2]["entropy/measured_change"]) > 1e-3, "nothing was learnt"


@pytest.mark.slow
def test_two_ranks_with_an_engine_each_learn_what_one_learns(ranked, quickstart, tmp_path):
    result = ranked("train", "trainer=ddp_cpu", f"hydra.run.dir={tmp_path}/run", ranks=2, kind="engine")
    assert result.returncode == 0, result.stderr
    assert_same(leaves(rows(tmp_path / "run")), leaves(rows(quickstart[0])), 1e-4)
    assert_same(rows(tmp_path / "run", "eval/avg@8")[2], rows(quickstart[0], "eval/avg@8")[2], 1e-6)


def test_loggers_and_debugging_settings_leave_their_files(inside):
    folder = inside(train, "debug=profiler", "logger=many", "rollout.steps=1", "rollout.problems=1")
    assert list(folder.glob("tensorboard/events.out.*")) and list(folder.glob("fit-profile*"))
    assert list(rows(folder)) == [1]
    groups = {json.loads(line)["prompt"] for line in (folder / "samples.jsonl").read_text().splitlines()}
    assert len(groups) == 1, "more than one problem"


def test_dapo_whole_pays_samples_anew_and_shapes(inside):
    folder = inside(train, "algorithm=dapo", "rollout=dapo")
    steps = rows(folder)
    assert list(steps) == [1, 2]
    for row in steps.values():
        assert row["rollout/tries"] > 1 and row["policy/grad_norm"] > 0
        right = row["rollout/correct"]
        assert 0 < right < 1 and -1 - 2 * right < row["rollout/reward"] <= 2 * right - 1
    for line in map(json.loads, (folder / "samples.jsonl").read_text().splitlines()):
        beyond = len(line["tokens"]) - (32 - 6)
        assert line["reward"] == pytest.approx((1 if line["correct"] else -1) - min(max(beyond / 6, 0), 1), abs=1e-3)


@pytest.mark.slow
def test_a_quick_check_leaves_a_folder_without_metrics(forks, tmp_path):
    (result,) = forks("isentropic.train", (["experiment=quickstart", "debug=fdr", f"hydra.run.dir={tmp_path}/run"], {}))
    assert result.returncode == 0 and "Traceback" not in result.stderr, result.stderr
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left >= {"config.yaml", "config_sources.txt"} and "metrics.csv" not in left


def test_how_answers_are_judged_is_told_and_kept(tmp_path, capsys):
    tell(["cage: seccomp", "a warning"], tmp_path)
    assert (tmp_path / "cage.txt").read_text() == capsys.readouterr().out == "cage: seccomp\na warning\n"
    tell([], tmp_path / "nowhere")


REWARDS = """
CALLS = []

def often(completions, **columns):
    CALLS.append(len(completions))
    return [float(len(completion)) for completion in completions]

def breaks(completions, **columns):
    CALLS.append(1)
    return [1 / (3 - len(CALLS)) for _ in completions]
"""


@pytest.mark.slow
def test_rewards_of_ones_own_are_logged_and_problems_are_sampled_alike_when_a_run_goes_on(forks, tmp_path):
    (tmp_path / "rewards.py").write_text(REWARDS)
    own = ["reward=[correct,trl]", f"reward.trl.functions=['{tmp_path}/rewards.py:often']", "reward.trl.weights=[0.01]"]
    own += ["rollout/sampling=pass_rate", "rollout.problems=24", "rollout.batch_size=32", "sampler=transformers"]
    own += ["policy.optimization.mini_batch=16", "policy.optimization.micro_batch=16", "experiment=quickstart"]
    own += ["rollout.evaluation.problems=4", "callbacks.checkpoint.every=1", "~callbacks.curves"]
    for folder, steps in (("whole", (4,)), ("parts", (2, 4))):
        for number in steps:
            lines = [*own, f"rollout.steps={number}", f"hydra.run.dir={tmp_path / folder}", "ckpt_path=last"]
            (result,) = forks("isentropic.train", (lines, {}))
            assert result.returncode == 0, result.stderr
    whole, parts = rows(tmp_path / "whole"), rows(tmp_path / "parts")
    assert parts[4] == whole[4] and whole[4]["reward/often"] > 0
    together = whole[4]["reward/correct"] + 0.01 * whole[4]["reward/often"]
    assert whole[4]["rollout/reward"] == pytest.approx(together, rel=1e-5)
    one, other = (
        {
            key: value for key, value in learnt(tmp_path / name).items() if "/settings/" not in key
        }  # which name the folder
        for name in ("parts", "whole")
    )
    assert_same(one, other, 0)
    assert "a prompt, as the policy reads it" in (tmp_path / "whole" / "example.txt").read_text()
    broken = [line.replace(":often", ":breaks") for line in own]
    (result,) = forks("isentropic.train", ([*broken, "rollout.steps=4", f"hydra.run.dir={tmp_path / 'broken'}"], {}))
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert "error: reward.breaks" in result.stderr and "raised ZeroDivisionError" in result.stderr
