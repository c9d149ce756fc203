import numpy as np
import pytest

from isentropic.reporting.analysis.entropy_verdict import judge, period, trend
from isentropic.runs.run import find

NOISE = np.random.default_rng(0)


@pytest.fixture
def verdict(a_run, tmp_path):
    def make(entropy, target=None):
        metrics = {"entropy/mean": list(entropy)}
        if target is not None:
            metrics["control/target"] = list(np.broadcast_to(target, len(entropy)))
        return judge(find([a_run(tmp_path / "run", steps=len(entropy), metrics=metrics)])[0])

    return make


def test_a_fall_under_a_third_that_lasts_is_a_collapse(verdict):
    found = verdict([0.3] * 50 + [0.05] * 50)
    assert found.collapse == pytest.approx(51, abs=3) and (found.start, found.end) == pytest.approx((0.3, 0.05))
    assert found.sentences[0] == (
        "Entropy collapsed: it went from 0.300 to 0.050 nats in 100 rollouts and stayed under a third of its start"
        f" from rollout {found.collapse} on."
    )


def test_a_fall_that_ends_is_none(verdict):
    found = verdict([0.3] * 40 + [0.05] * 20 + [0.3] * 40)
    assert found.collapse is None and found.sentences[0].startswith(
        "No collapse: entropy went from 0.300 to 0.300 nats"
    )


def test_the_band_is_a_fifth_around_the_target_of_each_rollout(verdict):
    found = verdict([0.3] * 25 + [0.19, 0.13] * 25 + [0.15] * 25, 0.15)
    assert found.in_band == pytest.approx(0.5) and found.in_band_late == pytest.approx(0.76)
    assert found.sentences[1] == "50% of the rollouts lie within 20% of 0.15 nats, 76% in the last half."
    moving = np.linspace(0.5, 0.2, 40)
    found = verdict(moving * 1.1, moving)
    assert found.in_band == 1 and "of the target of each" in found.sentences[1]


def test_without_a_target_there_is_no_band(verdict):
    found = verdict([0.3] * 40)
    assert found.in_band is None and not any("lie within" in sentence for sentence in found.sentences)


def test_drift_is_of_the_last_half(verdict):
    found = verdict(np.concatenate([np.full(50, 0.5), 0.5 - 0.002 * np.arange(50)]))
    assert found.drift == pytest.approx(-0.2)
    assert "Over the last half it still falls, by 0.200 nats per 100 rollouts (-0.2000)" in found.words
    assert "it is steady" in verdict([0.3, 0.31] * 30).words


def test_noise_that_wanders_is_no_drift(verdict):
    rest = np.zeros(160)
    for i in range(1, 160):
        rest[i] = 0.9 * rest[i - 1] + np.random.default_rng(i).normal()
    found = verdict(0.3 + 0.05 * rest)
    assert abs(found.drift) > 0.03 and found.chance > 0.05
    assert "no trend stands out of noise" in found.words


def test_a_swing_has_its_period(verdict):
    time = np.arange(200)
    found = verdict(0.3 + 0.03 * np.sin(2 * np.pi * time / 12.5) + NOISE.normal(0, 0.005, 200))
    assert found.period == pytest.approx(12.5, rel=0.05) and found.swing == pytest.approx(0.03 / np.sqrt(2), rel=0.15)
    assert "swings with a period of 12 rollouts" in found.words or "swings with a period of 13 rollouts" in found.words


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
def test_noise_that_remembers_is_no_swing(memory):
    """At one in a hundred, 200 draws should hold two; eight or more have a chance of one in a thousand."""
    found = 0
    for _ in range(200):
        noise, rest = NOISE.normal(size=160), np.zeros(160)
        for i in range(1, 160):
            rest[i] = memory * rest[i - 1] + noise[i]
        found += period(rest[60:] - rest[60:].mean()) is not None
    assert found <= 12


def test_a_straight_line_is_all_slope():
    slope, chance, swing, found = trend(np.arange(10, 60), 0.1 + 0.003 * np.arange(50))
    assert slope == pytest.approx(0.3) and chance == 0 and swing == pytest.approx(0, abs=1e-12) and found is None


def test_a_short_run_is_not_judged(verdict):
    found = verdict([0.3, 0.2, 0.1])
    assert found.words == "Entropy went from 0.300 to 0.100 nats in 3 rollouts, too few to judge."
    assert found.collapse is found.drift is found.period is None
    assert verdict([0.1]).words.startswith("Entropy was logged once, at 0.100 nats.")


def test_a_run_without_entropy_says_so(a_run, tmp_path):
    (run,) = find([a_run(tmp_path / "run", metrics={"rollout/reward": [0.1] * 40})])
    assert judge(run).words == "Its entropy was not logged."
