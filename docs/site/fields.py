"""What a setting is, as the comment beside it in its class or function says, read from the source."""

import ast
import io
import tokenize
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"


@cache
def comments_of(target: str) -> dict[str, str]:
    """By name, of isentropic.room.module.Class or .function; empty for what is not ours."""
    path, name = _file_of(target)
    return _comments(path).get(name, {}) if path else {}


@cache
def first_line_of(target: str) -> str:
    """Of the docstring of a class or function, or where it has none, of its module."""
    path, name = _file_of(target)
    if path is None:
        return ""
    tree = ast.parse(path.read_text())
    found = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name]
    text = next(filter(None, map(ast.get_docstring, [*found, tree])), "")
    return " ".join(text.partition("\n\n")[0].split())


def _file_of(target: str) -> tuple[Path | None, str]:
    module, _, name = target.rpartition(".")
    stem = SOURCE / module.replace(".", "/")
    files = stem.with_name(stem.name + ".py"), stem / "__init__.py"
    return next((file for file in files if module and file.is_file()), None), name


@cache
def _comments(path: Path) -> dict[str, dict[str, str]]:
    text = path.read_text()
    beside = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and token.line.split("#")[0].strip()
    }
    found: dict[str, dict[str, str]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            named = _named(node)
            found[node.name] = {name: beside[line] for name, line in named.items() if line in beside}
    return found


def _named(node: ast.ClassDef | ast.FunctionDef) -> dict[str, int]:
    """Fields of a class and arguments of its __init__, or arguments of a function, and the line where each ends."""
    if isinstance(node, ast.FunctionDef):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        return {one.arg: one.end_lineno or one.lineno for one in arguments}
    named: dict[str, int] = {}
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            named[part.target.id] = part.end_lineno or part.lineno
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            named |= _named(part)
    return named
