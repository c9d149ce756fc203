"""Notebooks as a reader finds them: without outputs, defining nothing, and running from top to bottom offline."""

import ast
import os
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed: pip install -e .[dev]")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install -e .[dev]")
ROOT = Path(__file__).parents[1]
NOTEBOOKS = [pytest.param(path, id=path.stem) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
# Of the warnings that a cell would show, those about the machine and not about what it does.
QUIET = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "WANDB_MODE": "offline"}


def code(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_outputs_are_stripped(path: Path):
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None, f"{path.name} has outputs; clear them"


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_nothing_is_defined(path: Path):
    defined = [
        ast.unparse(node).splitlines()[0]
        for source in code(path)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda)
    ]
    assert defined == [], "what a notebook needs lives in isentropic.reporting"


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS)
def test_it_runs_from_top_to_bottom(path: Path, tmp_path: Path):
    book = nbformat.read(path, 4)
    places = {"LOGS": str(tmp_path / "logs"), "IPYTHONDIR": str(tmp_path / "ipython")}
    client = nbclient.NotebookClient(
        book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute(env=os.environ | QUIET | places)
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    errors = [output for output in outputs if output.output_type == "stream" and output.name == "stderr"]
    assert errors == [], "warnings in a reader's notebook"
    assert any("image/png" in output.get("data", {}) for output in outputs)
