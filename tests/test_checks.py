"""What the tests check of every call: types everywhere, and shapes wherever one is named."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from beartype import beartype
from fixtures.checks import WITH_SHAPES, can_be_checked_at_once, checked, names_shapes
from fixtures.models import unchecked
from jaxtyping import Float, TypeCheckError
from torch import Tensor

PerRow = Float[Tensor, " rows"]
TWO, THREE = torch.ones(2), torch.ones(3)


def plain(number: int, kind: Literal["one", "other"]) -> str:
    return str(number) if kind == "one" else kind


def one_alias(first: PerRow, second: PerRow | None) -> None: ...


def inside_another(first: list[PerRow], second: Callable[[PerRow], int] | None = None) -> None: ...


def in_the_body(first: Tensor, second: Tensor) -> bool:
    return isinstance(first, PerRow) and isinstance(second, PerRow)


def as_text(first: "PerRow", second: "PerRow") -> None: ...


def given_back(first: PerRow, second: Tensor | None = None) -> Float[Tensor, "rows+1"]:
    return first if second is None else second


def of_a_size(size: int, first: Float[Tensor, " {size}"]) -> None: ...


def one_by_one(first: PerRow) -> Iterator[PerRow]:
    yield first


async def later(first: PerRow) -> None: ...


@dataclass
class Plain:
    number: int


@dataclass
class Rows:
    first: PerRow
    second: PerRow


def test_a_function_without_shapes_is_checked_for_types_alone():
    found = checked(typechecker=beartype)(plain)
    assert found(3, "one") == "3" and found.__wrapped__ is plain and not names_shapes(plain)
    with pytest.raises(TypeError):
        found("3", "one")
    with pytest.raises(TypeError):
        found(3, "another")
    made = checked(Plain, typechecker=beartype)
    assert made(3).number == 3
    with pytest.raises(TypeError):
        made("3")


@pytest.mark.parametrize("function", [one_alias, inside_another, in_the_body, as_text], ids=lambda one: one.__name__)
def test_a_function_that_names_a_shape_anywhere_is_checked_for_it(function):
    assert names_shapes(function)


@pytest.mark.parametrize("called", [one_alias, as_text, Rows], ids=lambda one: one.__name__)
def test_shapes_must_agree_within_a_call(called):
    found = checked(called, typechecker=beartype)
    found(TWO, TWO)
    with pytest.raises(TypeCheckError):
        found(TWO, THREE)
    assert not checked(in_the_body, typechecker=beartype)(TWO, THREE)


@pytest.mark.parametrize("way", [checked, WITH_SHAPES], ids=["at once", "by jaxtyping"])
def test_what_is_checked_at_once_is_refused_as_jaxtyping_refuses_it(way):
    found, both = (way(function, typechecker=beartype) for function in (given_back, one_alias))
    assert found(TWO, THREE) is THREE and found(first=TWO, second=THREE) is THREE and both(TWO, None) is None
    for wrong in (TWO, (TWO, TWO), (TWO.long(), THREE), (TWO[None], THREE), ("two", THREE)):
        with pytest.raises(TypeCheckError):
            found(*wrong) if isinstance(wrong, tuple) else found(wrong)
    with pytest.raises(TypeError):
        found()
    with unchecked():
        assert found(TWO, TWO) is TWO
    found(THREE, torch.ones(4))  # no size stays from the calls before


def test_what_jaxtyping_checks_otherwise_is_left_to_it():
    assert can_be_checked_at_once(given_back) and can_be_checked_at_once(one_alias)
    assert can_be_checked_at_once(in_the_body) and can_be_checked_at_once(Rows.__init__)
    others = inside_another, as_text, of_a_size, one_by_one, later
    assert [one.__name__ for one in others if can_be_checked_at_once(one)] == []
    with pytest.raises(TypeCheckError):
        checked(of_a_size, typechecker=beartype)(3, TWO)


def test_the_package_is_checked_in_this_way():
    from isentropic.evaluation.pass_at_k import PassAtK
    from isentropic.evaluation.scores import average
    from isentropic.runs.files import write_whole

    for wrong in (lambda: PassAtK(1, 1).score(TWO.long(), THREE.long()), lambda: average(TWO.long(), THREE.long())):
        with pytest.raises(TypeCheckError):
            wrong()
    with pytest.raises(TypeError):
        write_whole(3, "text")
    assert WITH_SHAPES is not checked
