"""Docstrings as reStructuredText: they are plain text with `code`, and lines that are indented stand as they are."""

import re
import textwrap

CODE = re.compile(r"`([^`\n]+)`")
MARKUP = re.compile(r"([\\*_|`])")


def restructured(docstring: str) -> str:
    blocks = re.split(r"\n\s*\n", textwrap.dedent(docstring).strip("\n"))
    return "\n\n".join(_block(block) for block in blocks if block.strip())


def _block(block: str) -> str:
    """A paragraph, or, where lines are indented, lines that stand as they are."""
    lines = block.splitlines()
    if all(not line.strip() or line.startswith(" ") for line in lines):
        return "::\n\n" + textwrap.indent(textwrap.dedent(block), "    ")
    if any(line.startswith("  ") and not re.match(r"\s+([-*\d])", line) for line in lines[1:]):
        return "::\n\n" + textwrap.indent(block, "    ")
    return "\n".join(_escaped(line.strip()) for line in lines)


def _escaped(line: str) -> str:
    """Outside of code, what reStructuredText would read as markup is text."""
    parts = CODE.split(line)
    return "".join(f"``{part}``" if i % 2 else MARKUP.sub(r"\\\1", part) for i, part in enumerate(parts))
