import pytest

from isentropic.reporting.analysis.anomalies import complete, odd
from isentropic.reporting.analysis.groups import group
from isentropic.runs.run import find

STILL = [0.3] * 40


def told(*folders):
    return [(one.kind, one.sentence, one.included) for one in odd(group(find(folders)).groups)]


def test_a_run_in_order_is_not_odd(a_run, tmp_path):
    metrics = {"entropy/mean": STILL, "policy/skipped": [0] * 40, "credit/stare": [0.1] * 40, "control/up": [1] * 40}
    assert told(a_run(tmp_path / "run", metrics=metrics, status={"status": "done"})) == []


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ({"status": "failed", "error": "out of memory"}, "failed: out of memory"),
        ({"status": "stopped"}, "was stopped"),
        ({"status": "running", "host": "elsewhere"}, "is still running"),
    ],
)
def test_how_a_run_ended_is_said(a_run, tmp_path, state, sentence):
    found = told(a_run(tmp_path / "run", status=state))
    assert [(kind, words) for kind, words, _ in found] == [("status", sentence)]


def test_a_run_that_stopped_early_is_in_no_statistics(a_run, tmp_path):
    folder = a_run(tmp_path / "run", status={"status": "failed", "error": "boom"}, config={"rollout": {"steps": 100}})
    assert told(folder) == [
        ("status", "failed: boom", False),
        ("short", "learnt from 40 of 100 rollouts", False),
    ]
    assert not complete(find([folder])[0])


def test_a_run_that_was_not_judged_at_its_end_has_no_final_score(a_run, tmp_path):
    folder = a_run(tmp_path / "run", scores={"eval/avg@8": [0.2, ""]})
    assert told(folder) == [("evaluation", "was last evaluated at rollout 0 of 40", False)]
    assert told(a_run(tmp_path / "other", scores={})) == [("evaluation", "was never evaluated", True)]


def test_nan_is_named_with_its_rollout(a_run, tmp_path):
    metrics = {"entropy/mean": STILL, "policy/loss": [0.1] * 20 + [float("nan")] * 20}
    assert told(a_run(tmp_path / "run", metrics=metrics)) == [
        ("nan", "logged NaN or infinity: policy/loss from rollout 21 on", True)
    ]


def test_alarms_are_counted(a_run, tmp_path):
    metrics = {
        "entropy/mean": STILL, "sampler/logp_gap": [0.001] * 38 + [0.05, 0.02], "policy/skipped": [0] * 39 + [1],
        "policy/empty": [0.5] + [0] * 39, "sampler/masked": [0.6] * 2 + [0] * 38,
        "rollout/filled": [1] * 37 + [0.5] * 3,
    }  # fmt: skip
    limits = {"callbacks": {"sampler": {"tolerance": 0.01}, "dropped": {"limit": 0.5}}}
    assert [sentence for _, sentence, _ in told(a_run(tmp_path / "run", metrics=metrics, config=limits))] == [
        "sampler and policy were up to 0.05 nats per token apart, above the tolerance of 0.01 in 2 rollouts",
        "skipped updates, whose gradients were not finite, in 1 rollout",
        "had optimizer steps of which credit rules left no token, in 1 rollout",
        "masked more than 50% of the tokens in 2 rollouts",
        "kept fewer groups than were wanted in 3 rollouts",
    ]


def test_parts_that_never_act_are_named(a_run, tmp_path):
    nothing = [0.0] * 40
    metrics = {"entropy/mean": STILL, "credit/stare": nothing, "control/up": nothing, "control/down": nothing}
    assert [sentence for _, sentence, _ in told(a_run(tmp_path / "run", metrics=metrics))] == [
        "its entropy controller never asked for anything (control/up and control/down are always 0)",
        "its credit rule stare never changed a token",
    ]


def test_of_runs_of_equal_settings_and_seed_one_counts(a_run, tmp_path):
    a_run(tmp_path / "first", status={"status": "stopped"}, steps=40)
    a_run(tmp_path / "second", steps=40, status={"status": "done"})
    a_run(tmp_path / "third", seed=1)
    found = [one for one in odd(group(find([tmp_path])).groups) if one.kind == "twice"]
    assert [(one.run.folder.name, one.sentence, one.included) for one in found] == [
        ("first", "has the settings and the seed of second, which has more to show", False)
    ]
