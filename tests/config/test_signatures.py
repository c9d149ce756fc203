"""What the source tells of a part is what Python tells once it is imported."""

import re
import subprocess
import sys
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar, Literal

import pytest

from isentropic.config.build import BadInput, by_import, by_source, check
from isentropic.config.compose import CONFIGS
from isentropic.config.signatures import read

TEXTS = [file.read_text() for file in CONFIGS.rglob("*.yaml")]
TARGETS = sorted({target for text in TEXTS for target in re.findall(r"_target_: (\w[\w.]+)", text)})
LOADED = "print(sorted({'torch', 'lightning', 'transformers', 'vllm'} & set(sys.modules)))"
Size = Literal["small", "large"]


class Root:
    def __init__(self, first: int, *rest: int, second: "Size | None" = None, **others: Any) -> None: ...


class Heir(Root): ...


@dataclass
class Base:
    name: str
    kind: ClassVar[str] = "base"


@dataclass(kw_only=True)
class Data(Base):
    sizes: dict[str, list[float]]
    root: Root | None
    seed: InitVar[int]
    made: int = field(default=0, init=False)


def function(a: "Data", b: tuple[int, ...] = (), c=None) -> None: ...


def path(what: Any) -> str:
    return f"{__name__}.{what.__name__}"


def test_arguments_of_classes_and_functions():
    for what in (Root, Heir):
        signature = read(path(what))
        assert signature is not None and signature.open_ended and signature.names == ["first", "second"]
        assert (signature.hint("first"), signature.hint("second")) == (int, Size | None)
    signature = read(path(function))
    assert signature is not None and signature.made is None and signature.names == ["a", "b", "c"]
    assert signature.hint("a").__name__ == "Data"
    assert (signature.hint("b"), signature.hint("c")) == (tuple[int, ...], Any)


def test_fields_of_dataclasses_with_those_inherited():
    signature = read(path(Data))
    assert signature is not None and not signature.open_ended and signature.names == ["name", "sizes", "root", "seed"]
    assert (signature.hint("sizes"), signature.hint("seed")) == (dict[str, list[float]], int)


def test_stand_ins_are_subclasses_as_the_classes_are():
    heir, root, data = (read(path(what)) for what in (Heir, Root, Data))
    assert heir and root and data
    assert issubclass(heir.made, root.made) and not issubclass(data.made, root.made)


@pytest.mark.parametrize("target", ["isentropic.nowhere.Part", f"{__name__}.nothing", "nowhere.Part"])
def test_what_is_not_there(target: str):
    with pytest.raises(LookupError):
        read(target)
    with pytest.raises(BadInput, match=rf"^part: {target} cannot be imported \("):
        check({"_target_": target}, "part", by_source)


@pytest.mark.parametrize("target", TARGETS)
def test_the_source_of_every_part_in_the_configs_tells_as_much_as_the_import(target: str):
    told, known = read(target), by_import({"_target_": target}, "")
    assert told is not None
    assert (told.open_ended, set(told.names)) == (known.open_ended, set(known.names))
    if target.startswith("isentropic."):
        assert [str(told.hint(name)) for name in told.names] == [str(known.hint(name)) for name in told.names]


@pytest.mark.parametrize(
    "override, sentence",
    [
        ("rollout.steps=ten", "rollout.steps=ten is not an int"),
        ("+trainer.devics=2", "trainer.devics does not exist: trainer has the keys .* did you mean devices"),
        ("+policy.modle=2", "policy.modle does not exist: .* did you mean model"),
        ("rollout.evaluation.split=all", "rollout.evaluation.split=all is not train, validation or test"),
    ],
)
def test_the_answer_to_a_wrong_setting_imports_no_framework(override: str, sentence: str):
    code = f"""
import atexit, sys
from isentropic.train import train
sys.argv = ["train", "experiment=quickstart", "{override}"]
atexit.register(lambda: {LOADED})
train()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert re.match(f"error: {sentence}", result.stderr), result.stderr
    assert result.stdout.splitlines()[-1] == "[]"
