"""The sentences that answer what cannot be, read from the source: every text that is raised, refused or warned of."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "isentropic"
SAYS = {"refuse", "BadInput", "SystemExit", "warn", "rank_zero_warn", "exit", "say", "print"}
LEAST = 15  # letters of a sentence, besides values


@dataclass(frozen=True)
class Sentence:
    text: str  # with ... for each value
    module: str


@cache
def sentences(source: Path = SOURCE) -> list[Sentence]:
    """In the order of the source, each once."""
    found: dict[Sentence, None] = {}
    for path in sorted(source.rglob("*.py")):
        module = ".".join(path.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text())):
            for text in _texts(node) or _answers(node, path):
                if sum(map(str.isalpha, text)) >= LEAST and " " in text:
                    found[Sentence(" ".join(text.split()), module)] = None
    return list(found)


def _texts(node: ast.AST) -> list[str]:
    """Of what is raised, or given to a function that says it."""
    call = node.exc if isinstance(node, ast.Raise) else node
    if not isinstance(call, ast.Call):
        return []
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if not (isinstance(node, ast.Raise) or name in SAYS):
        return []
    return [text for argument in call.args[:1] for text in _alternatives(argument)]


def _answers(node: ast.AST, path: Path) -> list[str]:
    """What functions of config/ return as a text, which their callers raise."""
    if isinstance(node, ast.Return) and node.value is not None and path.parent.name == "config":
        return _alternatives(node.value)
    return []


def _alternatives(node: ast.expr) -> list[str]:
    if isinstance(node, ast.IfExp):
        return [*_alternatives(node.body), *_alternatives(node.orelse)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "..." for part in node.values]
        return ["".join(map(str, parts))]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [a + b for a in _alternatives(node.left) or ["..."] for b in _alternatives(node.right) or ["..."]]
    return []


def page() -> str:
    """Every sentence by the room that says it, for the search of the site."""
    lines = [
        "# Every error sentence",
        "",
        "Errors, warnings and notes as the source has them, with `...` for a value. The search finds any "
        "words of one; [troubleshooting](troubleshooting.md) says what to do about those that are met most.",
    ]
    room = ""
    for sentence in sentences():
        place = ".".join(sentence.module.split(".")[1:2]) or "isentropic"
        if place != room:
            room = place
            lines += ["", f"## {room}", ""]
        lines.append(f"- `` {sentence.text.replace('``', '`')} `` ({{py:mod}}`{sentence.module}`)")
    return "\n".join([*lines, ""])
