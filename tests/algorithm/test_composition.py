"""Parts are chosen one by one: any of a kind goes with any of the others."""

from copy import deepcopy
from dataclasses import FrozenInstanceError, fields, replace
from itertools import combinations, permutations
from pathlib import Path
from random import Random

import pytest
import torch
from fixtures.models import unchecked
from hydra.utils import get_class, instantiate
from omegaconf import OmegaConf

CONFIGS = Path(__file__).parents[2] / "configs/algorithm"
SEAMS = sorted(folder.name for folder in CONFIGS.iterdir() if folder.is_dir())
RECIPES = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
LISTS = "credit", "penalty"
PARTS = [(seam, path.stem) for seam in SEAMS for path in sorted((CONFIGS / seam).glob("*.yaml"))]
SCOPES = "step", "rank", "micro_batch"
ROUNDS, EACH, FAST = 16, 128, 4
PAIRS = 20  # that are composed every day


def sample(population, size, seed=0):
    """The same few of many at every run, the later ones slow."""
    chosen = Random(seed).sample(population, min(size, len(population)))
    return [pytest.param(*one, marks=pytest.mark.slow if at >= PAIRS else ()) for at, one in enumerate(chosen)]


def override(seam, *names):
    return f"algorithm/{seam}=[{','.join(names)}]" if seam in LISTS else f"algorithm/{seam}={names[0]}"


def is_finite_and_masked(bigrams, algorithm):
    policy, batch = bigrams.rollouts()
    if any(rule.needs_negative_rewards for rule in algorithm.credit.values()):
        batch = replace(batch, reward=2 * batch.reward - 1)
    assert bigrams.step(algorithm, policy, batch).isfinite().all()
    found, _ = bigrams.gradient(algorithm, policy, batch)
    assert (found != 0).any()
    assert (found[:, ~batch.mask] == 0).all()


DIFFERENT = [p for p in combinations(PARTS, 2) if p[0][0] != p[1][0]]
ORDERED = [p for p in permutations(PARTS, 2) if p[0][0] == p[1][0] in LISTS]


@pytest.mark.composition
@pytest.mark.parametrize("one, other", sample(DIFFERENT, 60), ids=str)
def test_pairs_of_parts_go_together_by_override(build, bigrams, one, other):
    is_finite_and_masked(bigrams, build(override(*one), override(*other)))


@pytest.mark.composition
@pytest.mark.parametrize("one, other", sample(ORDERED, 30), ids=str)
def test_pairs_of_a_list_go_together_in_the_order_given(build, bigrams, one, other):
    algorithm = build(override(one[0], one[1], other[1]))
    assert list(getattr(algorithm, one[0])) == [one[1], other[1]]
    is_finite_and_masked(bigrams, algorithm)


def settings_of(seam, name):
    part = OmegaConf.load(CONFIGS / seam / f"{name}.yaml")
    return part[name] if seam in LISTS else part


@pytest.mark.parametrize("seam, name", PARTS)
def test_the_keys_of_a_part_are_the_fields_of_its_class(seam, name):
    part = settings_of(seam, name)
    settings = {f.name for f in fields(get_class(part["_target_"])) if f.init}
    assert set(part) == {"_target_"} | settings
    assert part["_target_"].startswith(f"isentropic.algorithm.{seam}.{name}.")


@pytest.fixture(scope="module")
def parts(build, bigrams):
    """Every part by seam and name: with the paper's numbers, and with those at which recipes act on few answers."""
    found = {}
    for seam, name in PARTS:
        inside = {name: settings_of(seam, name)} if seam in LISTS else settings_of(seam, name)
        part = OmegaConf.create({"clipping": settings_of("clipping", "fixed")} | {seam: inside})[seam]
        found[seam, name] = [instantiate(part[name] if seam in LISTS else part)]
    kinds = {type(part[0]): key for key, part in found.items()}
    for recipe in RECIPES:
        algorithm = build(f"algorithm={recipe}", *bigrams.ACTING.get(recipe, []))
        single = [getattr(algorithm, seam) for seam in SEAMS if seam not in LISTS]
        for part in [*single, *algorithm.credit.values(), *algorithm.penalty.values()]:
            if part not in found[kinds[type(part)]]:
                found[kinds[type(part)]].append(part)
    return found


@pytest.mark.composition
@pytest.mark.parametrize("seam, name", [part for part in PARTS if part[0] != "control"])
def test_only_controllers_can_change(parts, seam, name):
    for part in parts[seam, name]:
        for setting in fields(part):
            with pytest.raises(FrozenInstanceError):
                setattr(part, setting.name, getattr(part, setting.name))


def ingredients(seed):
    """The same combinations at every run: one name per seam, several in an order where a seam is a list."""
    draw = Random(seed)
    for _ in range(EACH):
        chosen = {seam: [draw.choice([n for s, n in PARTS if s == seam])] for seam in SEAMS if seam not in LISTS}
        for seam in LISTS:
            names = [n for s, n in PARTS if s == seam]
            chosen[seam] = draw.sample(names, draw.choice(range(min(4, len(names)) + 1)))
        yield chosen, draw.choice(SCOPES)


def cooked(parts, chosen, scope, draw):
    from isentropic.algorithm.algorithm import Algorithm

    own = {seam: {name: draw.choice(parts[seam, name]) for name in names} for seam, names in chosen.items()}
    single = {seam: next(iter(own[seam].values())) for seam in own if seam not in LISTS}
    return Algorithm(**(single | {seam: own[seam] for seam in LISTS}), scope=scope)


@pytest.mark.composition
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.slow if seed >= FAST else ()) for seed in range(ROUNDS)]
)
def test_any_parts_go_together(parts, bigrams, seed):
    policy, batch = bigrams.rollouts(seed, certain=seed % 3)
    now, before, pushed, draw = bigrams.read(policy, batch), deepcopy(parts), 0, Random(seed)
    for chosen, scope in ingredients(seed):
        algorithm = cooked(parts, chosen, scope, draw)
        once, _ = bigrams.gradient(algorithm, policy, batch, now=now, size=5)
        with unchecked():
            twice, _ = bigrams.gradient(algorithm, policy, batch, now=now, size=5)
        assert once.isfinite().all(), chosen
        assert (once[:, ~batch.mask] == 0).all(), chosen
        assert torch.equal(once, twice), chosen
        pushed += bool((once != 0).any())
    assert pushed > 0.8 * EACH
    assert parts == before


@pytest.mark.composition
def test_the_sample_holds_every_pair_of_parts():
    seen = set()
    for chosen, _ in (one for seed in range(ROUNDS) for one in ingredients(seed)):
        seen |= set(combinations([(seam, name) for seam in SEAMS for name in chosen[seam]], 2))
    assert ROUNDS * EACH >= 2000
    assert [pair for pair in [*DIFFERENT, *ORDERED] if pair not in seen] == []
