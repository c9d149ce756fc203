"""Where YAML files are looked for: ours, then those of packages of one's own, which have an entry point for them.

[project.entry-points."isentropic.configs"]     # in the package's pyproject.toml
mine = "mine.configs"                           # a folder of YAML files, laid out as ours
"""

from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

CONFIGS = Path(__file__).parents[1] / "configs"
GROUP = "isentropic.configs"


def own_configs() -> dict[str, Path]:
    """Entry point → folder. Raises ValueError where there is none, and for an option that two folders have."""
    found: dict[str, Path] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        folder = folder_of(point.value)
        if folder is None:
            raise ValueError(
                f"entry point {point.name}: there is no {point.value}; it must be a folder of an installed package, "
                "named in its package-data"
            )
        if folder not in found.values():
            refuse_same(folder, [CONFIGS, *found.values()])
            found[point.name] = folder
    return found


def folder_of(module: str) -> Path | None:
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return None
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]) if places else None


def refuse_same(folder: Path, others: list[Path]) -> None:
    """Raises ValueError for an option that one of the others has too."""
    for file in sorted(folder.rglob("*.yaml")):
        name = file.relative_to(folder)
        for other in others:
            if (other / name).exists() and other.resolve() != folder.resolve():
                raise ValueError(f"{file} has the name of {other / name}; give yours another name")
