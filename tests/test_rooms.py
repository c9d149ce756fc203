"""How the source hangs together, read from every import, those inside of functions included.

A room is a folder of modules. The steps of an algorithm, one folder each, are shelves of one room; what lies at the top
of the package (train, batch, ...) is in no room, and stands for itself; configs/ and assets/ hold no code.
"""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "isentropic"
MODULES = {
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}
MOST_ROOMS = 25


def room(module: str) -> str:
    """The folder that a module lies in; of each step of the algorithm, isentropic.algorithm."""
    folder = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    if folder == "isentropic":
        return module
    return "isentropic.algorithm" if folder.startswith("isentropic.algorithm.") else folder


def imported(module: str) -> set[str]:
    """Modules of ours that a module names in an import, wherever in it that stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} imports by dots; write the whole name"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {one if one in MODULES else str(node.module) for one in whole}
    return found & MODULES.keys() - {module, "isentropic"}


@cache
def arrows() -> dict[str, set[str]]:
    return {module: imported(module) for module in MODULES}


def circle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def between_rooms() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for module, others in arrows().items():
        found.setdefault(room(module), set()).update({room(other) for other in others} - {room(module)})
    return found


def test_a_package_of_few_rooms():
    rooms = {room(module) for module in MODULES if room(module) != module or MODULES[module].name == "__init__.py"}
    assert len(rooms - {"isentropic"}) <= MOST_ROOMS, sorted(rooms)


def test_no_module_imports_itself_by_way_of_others():
    assert circle(arrows()) == []


def test_no_room_imports_itself_by_way_of_others():
    assert circle(between_rooms()) == []
