"""Which sweep a run belongs to, and which run of a logger's a folder goes on with."""

from pathlib import Path

import yaml

from isentropic.runs.files import MULTIRUN, OVERRIDES

REPEATS = ("seed", "ckpt_path")  # overrides that make no other experiment of a job


def of_sweep(folder: Path) -> tuple[str | None, str | None]:
    """The name of the sweep that a run's folder belongs to, and what it varies in this run; nothing for a single run.

    The algorithm goes by its name alone.
    """
    sweep, own = folder.resolve().parent / MULTIRUN, folder / OVERRIDES
    if not (sweep.is_file() and own.is_file()):
        return None, None
    asked = yaml.safe_load(sweep.read_text(encoding="utf-8"))["hydra"]["overrides"]["task"]
    shared = dict(one.split("=", 1) for one in asked if "=" in one)
    given = dict(one.split("=", 1) for one in yaml.safe_load(own.read_text(encoding="utf-8")) if "=" in one)
    varied = {key: value for key, value in given.items() if shared.get(key, value) != value and key not in REPEATS}
    shown = [value if key == "algorithm" else f"{key}={value}" for key, value in varied.items()]
    return sweep.parent.name, ",".join(shown) or None


def known_id(folder: Path, logger: str) -> str | None:
    """The id that a logger gave the run of this folder, and nothing before its first part has begun."""
    file = folder / logger / "id.txt"
    return file.read_text(encoding="utf-8").strip() if file.is_file() else None


def keep_id(folder: Path, logger: str, run: str) -> None:
    file = folder / logger / "id.txt"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{run}\n", encoding="utf-8")


def missing(logger: str, package: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"logger={logger} needs the package {package}; pip install {package}")
