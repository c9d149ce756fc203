"""Makes dist/ of a release, and uploads nothing: `make release`.

An sdist and a wheel that PyPI would take, tried in a fresh environment from another folder, with what it holds
(dist/isentropic.cdx.json, CycloneDX) and the hashes of all (dist/SHA256SUMS).
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST, VENV = ROOT / "dist", ROOT / ".venv"
TOOLS = "build", "twine", "cyclonedx-bom"
TRY = "rollout.steps=2 rollout.batch_size=32 rollout.evaluation.problems=4 policy.optimization.mini_batch=16"
TRY += " policy.optimization.micro_batch=16 trainer.val_check_interval=2 sampler=transformers"


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        tools, fresh = python_of(work / "tools"), python_of(work / "fresh")
        say("building")
        run(tools, "-m", "pip", "install", "--quiet", *TOOLS)
        shutil.rmtree(DIST, ignore_errors=True)
        run(tools, "-m", "build", "--outdir", DIST, ROOT)
        run(tools, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()))
        say("trying the wheel in a fresh environment")
        (wheel,) = DIST.glob("*.whl")
        run(fresh, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
        site = next(VENV.glob("lib/python3*/site-packages"))
        lend(site, fresh)  # torch and the rest, as they are locked
        (work / "elsewhere").mkdir()
        isentropic = fresh.with_name("isentropic")
        run(isentropic, "--version", cwd=work / "elsewhere")
        run(isentropic, "train", "experiment=quickstart", *TRY.split(), cwd=work / "elsewhere")
        if not list((work / "elsewhere").rglob("checkpoints/last.ckpt")):
            sys.exit("the quickstart has left no checkpoint")
        say("what it holds")
        bill = DIST / "isentropic.cdx.json"
        run(tools, "-m", "cyclonedx_py", "environment", "--pyproject", ROOT / "pyproject.toml", "-o", bill, fresh)
    files = sorted(DIST.iterdir())
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (DIST / "SHA256SUMS").write_text(sums)
    print(sums, end="")


def python_of(folder: Path) -> Path:
    """Of a new environment."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin" / "python"


def lend(site: Path, python: Path) -> None:
    """Packages of `site`, after those that the environment has itself, and without the checkout's own."""
    (own,) = (python.parents[1] / "lib").glob("python3*/site-packages")
    (own / "lent.pth").write_text(f"{site}\n")


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Ends the program where the command fails."""
    line = [str(part) for part in command]
    print("$", " ".join([Path(line[0]).name, *line[1:]]), flush=True)
    unset = ("PYTHONPATH", "PROJECT_ROOT")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    if code := subprocess.run(line, cwd=cwd, env=environment).returncode:
        sys.exit(f"failed with exit code {code}: {' '.join(line)}")


def say(line: str) -> None:
    print(f"\n{line}", flush=True)


if __name__ == "__main__":
    main()
