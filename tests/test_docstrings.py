"""What CONTRIBUTING.md asks of the docstrings of the rooms that others build on, read without importing them."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "isentropic"
ROOMS = ("algorithm", "policy", "sampler", "rollout", "task", "reward", "evaluation")
SHAPE = re.compile(r"\[[^\]]*\b[A-Z][^\]]*\]|any shape|scalar", re.I)
SHAPED = re.compile(r"\b(?:Float|Int|Bool)\[(?:torch\.)?Tensor\b|\b(?:dict|Mapping|Callable|Itera\w+)\[.*")
STEPS = ("control", "advantage", "credit", "ratio", "clipping", "penalty", "aggregation")
SOURCED = re.compile(r"\d{4}\.\d{4,5}|\b(?:19|20)\d\d\b|\bverl\b|\bTRL\b|\b[Oo]urs\b")
FEWEST = 4  # words
CATCHES = ("ValueError", "Exception")
Definition = ast.FunctionDef | ast.AsyncFunctionDef
# Methods that a library calls, and describes, by the last name of the class that has them.
HOOKS = {
    "LightningModule": r"(configure|training|validation|on)_\w+",
    "LightningDataModule": r"setup|teardown|\w+_dataloader",
    "CheckpointIO": r"\w+_checkpoint",
    "Unpickler": "find_class",
    "HTTPConnection": "connect",
    "Function": "forward|backward",
    "Module": "forward|train",
}


@dataclass(frozen=True)
class Public:
    """A class or function that others may call, with the docstring that speaks for it."""

    where: str
    node: ast.ClassDef | Definition
    said: str
    source: str  # of the whole file


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def classes() -> dict[str, ast.ClassDef]:
    """By module and name, those of the whole package."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        found |= {f"{module}.{node.name}": node for node in parsed(path).body if isinstance(node, ast.ClassDef)}
    return found


def imports(tree: ast.Module) -> dict[str, str]:
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def methods(node: ast.ClassDef) -> Iterator[Definition]:
    return (one for one in node.body if isinstance(one, Definition))


def inherited(node: ast.ClassDef, module: str, path: Path) -> set[str]:
    """Names of methods that a base of ours has, or a library's hooks; the base is where they are described."""
    names, known = set[str](), imports(parsed(path))
    for base in node.bases:
        base = base.value if isinstance(base, ast.Subscript) else base
        written = ast.unparse(base)
        full = known.get(written, f"{module}.{written}")
        if parent := classes().get(full):
            home = full.rpartition(".")[0]
            names |= {one.name for one in methods(parent)} | inherited(parent, home, file_of(home))
        hooks = HOOKS.get(written.rpartition(".")[2], "")
        names |= {one.name for one in methods(node) if re.fullmatch(hooks, one.name)}
    return names


def file_of(module: str) -> Path:
    place = SOURCE.parent / module.replace(".", "/")
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def public(name: str) -> bool:
    return not name.startswith("_") or name == "__call__"


def definitions(room: str) -> Iterator[Public]:
    for path in sorted((SOURCE / room).rglob("*.py")):
        inside = path.relative_to(SOURCE).as_posix()
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
        for node in parsed(path).body:
            if not isinstance(node, ast.ClassDef | Definition) or not public(node.name):
                continue
            source = path.read_text()
            yield Public(f"{inside}:{node.lineno} {node.name}", node, ast.get_docstring(node) or "", source)
            if isinstance(node, ast.ClassDef):
                overrides = inherited(node, module, path)
                for one in methods(node):
                    if public(one.name) and one.name not in overrides:
                        where = f"{inside}:{one.lineno} {node.name}.{one.name}"
                        yield Public(where, one, ast.get_docstring(one) or "", source)


def own(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when it is called: without functions inside of it, and what it tries and catches itself."""
    caught: list[ast.stmt] = []
    if isinstance(node, ast.Try) and any(one.type and ast.unparse(one.type) in CATCHES for one in node.handlers):
        caught = node.body
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, Definition | ast.Lambda | ast.ClassDef) or child in caught):
            yield child
            yield from own(child)


def raised(node: ast.ClassDef | Definition) -> set[str]:
    """Names of what calling it, or making one, raises by its own words."""
    made = [one for one in node.body if isinstance(one, Definition) and one.name in ("__init__", "__post_init__")]
    parts = made if isinstance(node, ast.ClassDef) else [node]
    calls = [one.exc for part in parts for one in own(part) if isinstance(one, ast.Raise)]
    return {ast.unparse(one.func).rpartition(".")[2] for one in calls if isinstance(one, ast.Call)}


def unexplained(one: Public) -> list[str]:
    """Numbers that a dataclass takes, of which neither a comment beside or above them nor its docstring speaks."""
    if not (isinstance(one.node, ast.ClassDef) and "dataclass" in " ".join(map(ast.unparse, one.node.decorator_list))):
        return []
    lines = ["", *one.source.splitlines()]
    return [
        field.target.id
        for field in one.node.body
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and re.fullmatch(r"(float|int)( \| None)?", ast.unparse(field.annotation))
        and "init=False" not in ast.unparse(field)
        and not ("#" in lines[field.lineno] or lines[field.lineno - 1].strip().startswith("#"))
        and not re.search(rf"\b{field.target.id}\b", one.said)
    ]


def unsourced(one: Public) -> bool:
    """Whether a part of the algorithm names nobody whose formula it is, in its docstring or its file's."""
    room, _, rest = one.where.partition("/")
    step, slash, file = rest.partition(":")[0].partition("/")
    part = room == "algorithm" and step in STEPS and slash and file != "__init__.py"
    head = re.match(r'r?"""(.*?)"""', one.source, re.S)
    return bool(
        part and isinstance(one.node, ast.ClassDef) and not SOURCED.search(one.said + (head[1] if head else ""))
    )


def bare_tensors(node: ast.ClassDef | Definition) -> bool:
    """Whether an annotation says Tensor without a shape; collections by name, and functions, have no one shape."""
    if isinstance(node, ast.ClassDef):
        return False
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    notes = [ast.unparse(note) for note in [*(one.annotation for one in arguments), node.returns] if note]
    return any("Tensor" in re.findall(r"\w+", SHAPED.sub("", note)) for note in notes)


def undescribed(one: Public) -> list[str]:
    """What its docstring lacks, in words."""
    lacks = [] if one.said else ["has no docstring"]
    lacks += ["says next to nothing"] if one.said and len(one.said.split()) < FEWEST else []
    lacks += ["has tensors of no shape"] if bare_tensors(one.node) and not SHAPE.search(one.said) else []
    lacks += [f"raises {name} and does not say when" for name in sorted(raised(one.node)) if name not in one.said]
    lacks += [f"does not say what {name} is" for name in unexplained(one)]
    lacks += ["names no source"] if unsourced(one) else []
    return [f"{one.where} {what}" for what in lacks]


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_public_says_what_it_is_of_which_shape_and_what_it_refuses(room: str):
    found = list(definitions(room))
    assert found
    assert [what for one in found for what in undescribed(one)] == []


@pytest.mark.parametrize(
    ("written", "lacks"),
    [
        ("def f(x: int) -> int: return x", ["has no docstring"]),
        ("def f(x: Tensor) -> int: 'Of any one number.'", ["has tensors of no shape"]),
        ("def f(x: Tensor) -> int: 'Of any x, [B, S].'", []),
        ("def f(x: Float[Tensor, 'B S']) -> int: 'Of any one number.'", []),
        ("def f():\n    'Checks it at once.'\n    raise ValueError('no')", ["raises ValueError and does not say when"]),
        ("def f():\n    'Raises ValueError for any call.'\n    raise ValueError('no')", []),
        ("def f():\n    'Checks it at once.'\n    raise KeyError('no')", ["raises KeyError and does not say when"]),
        ("def f(): 'Checks.'", ["says next to nothing"]),
        (
            "@dataclass\nclass C:\n    'What is set.'\n    lr: float",
            ["says next to nothing", "does not say what lr is"],
        ),
        ("@dataclass\nclass C:\n    'One of many parts.'\n    lr: float  # per step", []),
        ("@dataclass\nclass C:\n    'What `lr` is set to.'\n    lr: float", []),
        ("def f():\n    'Tries it at once.'\n    try: raise ValueError('no')\n    except ValueError: pass", []),
        (
            "class C:\n    'One of many parts.'\n    def __post_init__(self): raise ValueError('no')",
            ["raises ValueError and does not say when"],
        ),
    ],
)
def test_the_rule_finds_what_is_missing(written: str, lacks: list[str]):
    (node,) = ast.parse(written).body
    assert isinstance(node, ast.ClassDef | Definition)
    assert undescribed(Public("here", node, ast.get_docstring(node) or "", written)) == [f"here {one}" for one in lacks]


def test_an_override_is_described_by_its_base_and_a_method_of_its_own_is_not():
    named = {one.where.partition(" ")[2] for one in definitions("algorithm")}
    assert "AdvantageEstimator.__call__" in named and "Rloo.__call__" not in named
    assert "Oscillate.reference" in named and "Oscillate.update" not in named
