from dataclasses import dataclass
from typing import Any, Literal

import pytest
from omegaconf import OmegaConf

from isentropic.config.build import BadInput, bad_input, bears, build, check


class Shape:
    pass


@dataclass(frozen=True)
class Circle(Shape):
    radius: float
    unit: Literal["cm", "mm"]
    note: str | None
    sides: int

    def __post_init__(self) -> None:
        if self.radius <= 0:
            raise ValueError(f"radius={self.radius} must be above 0")


@dataclass
class Drawing:
    shapes: dict[str, Shape]
    corners: list[float]
    options: dict[str, Any]
    first: Shape | None


def circle(**changes: Any) -> dict[str, Any]:
    return {"_target_": f"{__name__}.Circle", "radius": 1, "unit": "cm", "note": None, "sides": 0} | changes


def drawing(**changes: Any) -> dict[str, Any]:
    parts = {"shapes": {"a": circle()}, "corners": [1, 2.5], "options": {"deep": [{"x": 1}]}, "first": None}
    return {"_target_": f"{__name__}.Drawing"} | parts | changes


def refusal(key: str = "part", **settings: Any) -> str:
    with pytest.raises(BadInput) as caught:
        build(OmegaConf.create({key: settings}), key)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_parts_are_built_inside_out_and_keep_plain_containers():
    made = build(OmegaConf.create({"art": drawing(first="${art.shapes.a}")}), "art")
    assert made == Drawing({"a": Circle(1, "cm", None, 0)}, [1, 2.5], {"deep": [{"x": 1}]}, Circle(1, "cm", None, 0))
    containers = [made.shapes, made.corners, made.options, made.options["deep"], made.options["deep"][0]]
    assert [type(c) for c in containers] == [dict, list, dict, list, dict]


def test_what_the_caller_gives_is_passed_as_it_is():
    mine = Circle(3.0, "mm", None, 0)
    settings = drawing()
    del settings["first"]
    assert build(OmegaConf.create({"art": settings}), "art", first=mine).first is mine


def test_a_group_of_parts_is_a_dict_and_no_part_is_none():
    cfg = OmegaConf.create({"shapes": {"a": circle(), "b": circle(radius=2)}, "none": None, "empty": {}})
    assert {name: part.radius for name, part in build(cfg, "shapes").items()} == {"a": 1, "b": 2}
    assert build(cfg, "none") is None
    assert build(cfg, "empty") == {}


def test_partial_waits_for_the_rest():
    settings = circle(_partial_=True)
    del settings["radius"]
    assert build(OmegaConf.create({"part": settings}), "part")(radius=5).radius == 5


def test_every_item_of_a_list_is_looked_at():
    assert bears(list[float], [1, 2.5]) and bears(list[float] | None, None) and bears(str | list[str], ["a", "b"])
    for place in range(20):
        assert not bears(str | list[float] | None, [1.0] * place + [".inf"] + [1.0] * (19 - place))
    assert not bears(list[list[int]], [[1], [1, "2"]])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"radius": "abc"}, "part.radius=abc is not a float"),
        ({"radius": True}, "part.radius=True is not a float"),
        ({"radius": None}, "part.radius=null is not a float"),
        ({"sides": 1.5}, "part.sides=1.5 is not an int"),
        ({"unit": "m"}, "part.unit=m is not cm or mm"),
        ({"radius": -1}, "part: radius=-1 must be above 0"),
        ({"radius": "???"}, "part.radius has no value; set it with part.radius=..."),
        ({"radius": "${nowhere}"}, "part.radius: Interpolation key 'nowhere' not found"),
        (
            {"colour": 1},
            "part.colour does not exist: part has the keys note, radius, sides and unit; if it was set for another "
            "part, ~part.colour takes it away",
        ),
        (
            {"raduis": 1},
            "part.raduis does not exist: part has the keys note, radius, sides and unit; did you mean radius?",
        ),
    ],
)
def test_a_wrong_setting_is_one_sentence(changes: dict[str, Any], sentence: str):
    assert refusal(**circle(**changes)) == sentence


def test_a_setting_that_is_not_there_is_named():
    settings = circle()
    del settings["unit"]
    assert refusal(**settings) == "part.unit has no value; set it with part.unit=..."


def test_wrong_parts_are_named_by_their_dotted_key():
    assert refusal(**drawing(first=drawing())) == f"part.first={__name__}.Drawing is not a Shape or null"
    assert refusal(**drawing(shapes={"a": circle(), "b": {"radius": 2}})) == (
        "part.shapes.b has settings ({'radius': 2}) but is not chosen; add b to part/shapes=[...] or take them away "
        "with ~part.shapes.b"
    )
    assert refusal(**drawing(shapes={"a": circle(radius=0)})) == "part.shapes.a: radius=0 must be above 0"


def test_a_target_that_cannot_be_imported_says_why():
    assert refusal(_target_="isentropic.nowhere.Part") == (
        "part: isentropic.nowhere.Part cannot be imported (No module named 'isentropic.nowhere')"
    )


class Refusal(Exception):
    pass


def refuse(devices: int) -> None:
    raise Refusal(f"{devices} devices\nare none")


def test_what_a_library_refuses_by_an_exception_of_its_own_is_a_sentence_too():
    assert refusal(_target_=f"{__name__}.refuse", devices=0) == "part: 0 devices are none"


def test_checking_makes_nothing():
    check(drawing(shapes={"a": circle(radius=-1)}), "art")


def test_errors_of_the_setup_carry_their_key_once():
    with pytest.raises(BadInput, match=r"^ckpt_path: no such file$"), bad_input("ckpt_path"):
        raise FileNotFoundError("no such file")
    with pytest.raises(BadInput, match=r"^ckpt_path=x is corrupt$"), bad_input("ckpt_path"):
        raise ValueError("ckpt_path=x is\ncorrupt")
    with pytest.raises(KeyError), bad_input("ckpt_path"):
        raise KeyError("a fault of ours")
