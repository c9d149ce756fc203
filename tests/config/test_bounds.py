"""What constructors refuse of plain values is said from their source, in their own words."""

import pytest

from isentropic.config.bounds import check_bounds, construct
from isentropic.config.build import BadInput, build
from isentropic.config.compose import CONFIGS, check_jobs, compose, loader_of

LOADER = loader_of(CONFIGS)


@pytest.mark.parametrize(
    ("key", "lines"),
    [
        ("policy.optimization", "policy.optimization.mini_batch=0"),
        ("policy.optimization", "policy.optimization.micro_batch=7"),
        ("policy.optimization", "policy.optimization.max_grad_norm=0"),
        ("algorithm", "algorithm=stare algorithm.credit.stare.top=2"),
        ("algorithm", "algorithm=stare algorithm.credit.stare.damp=-1"),
        ("algorithm", "algorithm/control=gate algorithm.control.target=.inf"),
        ("rollout.turns", "rollout.turns.seconds=0"),
        ("callbacks", "callbacks=[early_stopping] callbacks.early_stopping.patience=0"),
    ],
)
def test_a_bound_is_told_from_the_source_in_the_words_of_the_constructor(key: str, lines: str):
    overrides = ["experiment=quickstart", *lines.split()]
    with pytest.raises(BadInput) as early:
        check_jobs(LOADER, "train", overrides, sweep=False)
    with pytest.raises(BadInput) as late:
        build(compose(LOADER, "train", overrides), key)
    assert str(early.value) == str(late.value)


PART = '''
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

from other import allowed

LEAST = 2


@dataclass(frozen=True)
class Base:
    few: int
    share: float = 0.5
    kind: ClassVar[str] = "base"

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if not allowed(self.few):
            raise ValueError("only the constructor knows")
        for name in ("few",):
            value = getattr(self, name)
            if value < LEAST:
                raise ValueError(f"{self.kind}.{name}={value} must be at least {LEAST}")
        if not isfinite(self.share):
            raise ValueError(f"share={self.share} is not finite")
        object.__setattr__(self, "share", 2 * self.share)
        assert False
        if self.few > 9:
            raise ValueError("too many")


class Derived(Base):
    pass


class Plain:
    def __init__(self, count: int, most: int = 3) -> None:
        self.count = count
        if count < 0:
            raise ValueError("negative")
'''


@pytest.fixture
def part(tmp_path, monkeypatch):
    (tmp_path / "bounded_part.py").write_text(PART)
    monkeypatch.syspath_prepend(tmp_path)
    return "bounded_part"


def test_constants_loops_and_what_is_inherited_are_read_and_nothing_is_imported(part):
    for name in ("Base", "Derived"):
        with pytest.raises(ValueError, match=r"^base\.few=1 must be at least 2$"):
            construct(f"{part}.{name}", {"few": 1})
        with pytest.raises(ValueError, match="share=nan is not finite"):
            construct(f"{part}.{name}", {"few": 2, "share": float("nan")})
        construct(f"{part}.{name}", {"few": 2})


def test_what_comes_after_more_than_a_look_is_left_to_the_constructor(part):
    construct(f"{part}.Base", {"few": 10})
    construct(f"{part}.Plain", {"count": -1})


def test_what_is_made_of_other_parts_or_is_not_there_is_left_to_the_constructor(part):
    construct(f"{part}.Base", {"few": {"_target_": f"{part}.Plain", "count": 1}})
    construct("bounded_part.Missing", {"few": 1})
    construct("no.such.module", {})
    check_bounds({"part": {"_target_": f"{part}.Base", "_partial_": True, "few": 1}})


def test_the_key_of_a_part_in_a_list_is_named(part):
    with pytest.raises(BadInput, match=r"^parts\[1\]: base\.few=0 must be at least 2$"):
        check_bounds({"parts": [1, {"_target_": f"{part}.Base", "few": 0}]})


def test_a_run_s_own_settings_are_in_bounds():
    check_jobs(LOADER, "train", ["experiment=quickstart"], sweep=False)
