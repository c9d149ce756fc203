"""What an evaluation would take, from its numbers alone."""

from dataclasses import replace

import pytest

from isentropic.config.build import build
from isentropic.config.compose import CONFIGS, compose, loader_of
from isentropic.planning.architecture import architecture
from isentropic.planning.evaluation import Asked, hours, ranks_for, table
from isentropic.planning.lengths import Lengths

LENGTHS = Lengths(prompt=160, share=1.0, kept=1.0)
AIME = Asked("aime24", problems=30, count=32, max_tokens=20480)


@pytest.fixture(scope="module")
def cfg():
    return compose(loader_of(CONFIGS), "plan", ["paths.output=.", "card=h200"])


@pytest.fixture(scope="module")
def card(cfg):
    return build(cfg, "card")


def of(cfg, name):
    return architecture(name, cfg.architectures)


def test_answers_and_tokens_are_counted():
    assert (AIME.answers, AIME.tokens) == (960, 19_660_800)


def test_more_answers_and_a_larger_model_take_longer(cfg, card):
    small, large = of(cfg, "Qwen/Qwen2.5-1.5B"), of(cfg, "Qwen/Qwen2.5-7B")
    (once,), (twice,) = (hours(small, card, LENGTHS, [replace(AIME, count=count)]) for count in (32, 64))
    assert 1.3 * once < twice < 2.2 * once
    assert hours(large, card, LENGTHS, [AIME])[0] > once


def test_shorter_answers_are_an_upper_bound_s_part(cfg, card):
    model = of(cfg, "Qwen/Qwen2.5-7B")
    assert hours(model, card, replace(LENGTHS, share=0.4), [AIME])[0] < hours(model, card, LENGTHS, [AIME])[0]


def test_a_model_has_as_many_cards_as_it_needs(cfg, card):
    assert ranks_for(of(cfg, "Qwen/Qwen2.5-7B"), card) == 1
    assert ranks_for(replace(of(cfg, "Qwen/Qwen2.5-32B"), layers=80), card) == 2
    with pytest.raises(ValueError, match="leave no room for answers on eight"):
        ranks_for(replace(of(cfg, "Qwen/Qwen2.5-32B"), layers=1200), card)


def test_the_table_adds_up():
    lines = table([AIME, Asked("math500[100]", 100, 4, 10)], [1.5, 0.25])
    assert lines[-1].split() == ["together", "130", "1,360", "19,664,800", "1.75"]
    assert len({len(line) for line in lines}) == 1
