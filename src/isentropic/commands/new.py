"""A package of one's own, that trains, tests and sweeps as it is: a credit rule, a reward, a task, a recipe, a run.

    isentropic new my-method

The folder ./my-method holds the package my_method, whose options are called my_method too. Install it beside isentropic
(`pip install -e 'my-method[test]'`), and replace what each file has for an example: docs/your_own_package.md.
"""

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from isentropic.config.own import CONFIGS
from isentropic.config.refused import refuse

TEMPLATE = Path(__file__).parents[1] / "assets" / "package"
NAME, SUFFIX = re.compile(r"\bmine\b"), "-tpl"  # of the template; the suffix keeps its files from being taken for ours


def main(arguments: list[str]) -> None:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        refuse("isentropic new takes one name, as in isentropic new my-method")
    (name,) = arguments
    try:
        folder = make(Path.cwd(), name)
    except (ValueError, OSError) as error:
        refuse(error)
    package = module_of(name)
    print(f"{folder} is the package {package}. Next:\n")
    print(f"    pip install -e '{name}[test]' && python -m pytest {name}")
    print(f"    isentropic train experiment={package}")
    print(f"    isentropic train -m experiment={package} algorithm={package},dapo seed=0,1")


def make(place: Path, name: str) -> Path:
    """Its folder in `place`. Raises ValueError for a name that cannot be, or is taken."""
    package, folder = module_of(name), place / name
    if not (re.fullmatch(r"[a-z][a-z0-9_]*", package) and not keyword.iskeyword(package)):
        raise ValueError(f"{name} cannot be a package's name; take small letters, digits and dashes, as in my-method")
    if folder.exists():
        raise ValueError(f"{folder} exists; give another name, or remove it")
    if package in sys.stdlib_module_names or find_spec(package) is not None:
        raise ValueError(f"{name} would hide the module {package}, which is installed here; give another name")
    files = {renamed(path, package): path for path in TEMPLATE.rglob("*") if is_text(path)}
    for made in files:
        option = CONFIGS / made.relative_to(f"{package}/configs") if made.suffix == ".yaml" else None
        if option and option.exists():
            raise ValueError(
                f"{name} would have the option {option.parent.relative_to(CONFIGS)}={option.stem}, which isentropic "
                "has; give another name"
            )
    for made, path in files.items():
        text = path.read_text(encoding="utf-8")
        if made.name == "pyproject.toml":
            text = text.replace('name = "mine"', f'name = "{name}"')
        (folder / made).parent.mkdir(parents=True, exist_ok=True)
        (folder / made).write_text(NAME.sub(package, text), encoding="utf-8")
    return folder


def module_of(name: str) -> str:
    return name.replace("-", "_")


def is_text(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def renamed(path: Path, package: str) -> Path:
    """Where a file of the template goes."""
    inside = path.relative_to(TEMPLATE).as_posix().removesuffix(SUFFIX)
    return Path(".gitignore") if inside == "gitignore" else Path(re.sub(r"(?<![a-z])mine(?![a-z])", package, inside))


if __name__ == "__main__":
    main(sys.argv[1:])
