import pytest
import torch

from isentropic.algorithm import toy_policy
from isentropic.config.build import build
from isentropic.config.recipes import configured


@pytest.fixture
def puzzle():
    return toy_policy.puzzle(problems=4, places=6, tokens=12, deciding=2, good=3, spread=1.0, seed=0)


def algorithm(*recipe: str):
    return build(configured(*recipe), "algorithm")


def always(boost: float):
    return algorithm("stare", "algorithm/control=constant", f"algorithm.credit.stare.boost={boost}")


def test_the_first_places_decide_and_accuracy_is_the_product_over_them(puzzle):
    assert puzzle.decides.tolist() == [[True, True, False, False, False, False]] * 4
    assert puzzle.good[:, :2].sum(-1).eq(3).all()
    even = torch.zeros_like(puzzle.logits)
    assert toy_policy.accuracy(puzzle, even) == pytest.approx((3 / 12) ** 2)
    assert toy_policy.ways(puzzle, even) == pytest.approx(9.0)


def test_sensitivity_predicts_a_small_step_and_averages_to_zero_under_the_policy(puzzle):
    place = puzzle.logits[0, 2]
    for advantage in (1.0, -0.5):
        expected = -1e-5 * advantage * toy_policy.sensitivity(place)
        assert torch.allclose(toy_policy.change(place, advantage, 1e-5), expected, rtol=0, atol=1e-9)
        assert expected.abs().max() > 1e-7
    mean = (puzzle.logits.softmax(-1) * toy_policy.sensitivity(puzzle.logits)).sum(-1)
    assert mean.abs().max() < 1e-15


def test_sensitivity_is_the_one_that_runs_log(puzzle):
    from isentropic.policy.model.logprobs import entropy, sensitivity

    place = puzzle.logits[0]
    log_probs = place.log_softmax(-1)
    theirs = sensitivity(log_probs, log_probs[:, 3], entropy(log_probs))
    assert torch.allclose(toy_policy.sensitivity(place)[:, 3], theirs)


def test_praise_still_spreads_where_surprisal_is_the_entropy(puzzle):
    """The border of the sets lies at more than exp(-H), never at less."""
    p, h = puzzle.logits.softmax(-1), toy_policy.entropy(puzzle.logits)
    assert (toy_policy.sensitivity(puzzle.logits)[p.log() < -h[..., None]] < 0).all()


def test_one_update_changes_entropy_as_predicted(puzzle):
    run = toy_policy.train(puzzle, algorithm("grpo"), rollouts=3, group=64, updates=1, lr=0.5, seed=0)
    measured = torch.tensor(run.entropy).diff()
    assert torch.allclose(torch.tensor(run.predicted, dtype=measured.dtype), measured, rtol=0.05, atol=0)
    assert measured.abs().max() > 1e-6


def test_above_its_critical_weight_stare_raises_entropy_and_below_it_does_not(puzzle):
    half = toy_policy.train(puzzle, algorithm("grpo"), rollouts=15, group=16, updates=4, lr=15.0, seed=0)
    ready = toy_policy.Puzzle(half.logits, puzzle.good)
    none, some = (toy_policy.train(ready, always(w), 1, 256, 1, lr=0.5, seed=0).predicted[0] for w in (0.0, 1.0))
    critical = none / (none - some)
    assert critical > 2
    for weight, sign in ((critical * 0.8, -1), (critical * 1.2, 1)):
        run = toy_policy.train(ready, always(weight), 1, 256, 1, lr=0.5, seed=0)
        assert sign * (run.entropy[1] - run.entropy[0]) > 0


def test_the_critical_weight_falls_with_the_length_of_answers():
    found = []
    for places in (6, 24, 96):
        start = toy_policy.puzzle(problems=8, places=places, tokens=12, deciding=2, good=3, spread=1.0, seed=1)
        half = toy_policy.train(start, algorithm("grpo"), 15, 16, 4, lr=2.5 * places, seed=0)
        ready = toy_policy.Puzzle(half.logits, start.good)
        none, some = (toy_policy.train(ready, always(w), 1, 512, 1, lr=1.0, seed=0).predicted[0] for w in (0.0, 1.0))
        found.append(places * (none / (none - some) - 1))
    assert min(found) > 15 and max(found) < 35, found  # W* - 1 is about 25 / T


def test_flexible_clipping_is_grpo_with_one_update_and_not_with_four(puzzle):
    for updates, same in ((1, True), (4, False)):
        one, other = (toy_policy.train(puzzle, algorithm(n), 4, 16, updates, 15.0, 0) for n in ("grpo", "flexible_id"))
        assert torch.equal(one.logits, other.logits) is same


@pytest.mark.slow
def test_stare_holds_the_mean_and_not_the_places_that_decide(puzzle):
    target = ["algorithm.control.target=1.6", "algorithm.credit.stare.boost=6"]
    grpo, stare = (toy_policy.train(puzzle, algorithm(*r), 60, 16, 4, 7.5, 0) for r in (["grpo"], ["stare", *target]))
    assert stare.entropy[-1] > grpo.entropy[-1] + 0.1
    assert stare.free[-1] > grpo.free[-1] + 0.15 and stare.deciding[-1] < 0.3


def test_contributions_add_up_to_the_mean_of_all_tokens(puzzle):
    batch = toy_policy.rollout(puzzle, puzzle.logits, 64, torch.Generator().manual_seed(0))
    advantages = algorithm("grpo").advantage(batch)
    parts = toy_policy.contributions(batch, advantages)
    total = float((-advantages * batch.old_sensitivity).mean())
    assert sum(effect for _, effect in parts.values()) == pytest.approx(total, abs=1e-12) and total != 0
    assert parts["positive_surprising"][1] > 0 > parts["negative_surprising"][1]


def test_means_are_over_runs(puzzle):
    runs = [toy_policy.train(puzzle, algorithm("grpo"), 2, 16, 1, 15.0, seed) for seed in range(2)]
    assert toy_policy.mean_over(runs, "accuracy").tolist() == pytest.approx(
        [(a + b) / 2 for a, b in zip(runs[0].accuracy, runs[1].accuracy, strict=True)]
    )
