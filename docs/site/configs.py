"""The reference of configs/: each group, its options, and the keys of each with default and comment."""

import re
from pathlib import Path

import yaml
from fields import comments_of, first_line_of

SKIPPED = ("defaults", "_target_", "_convert_", "_partial_", "_recursive_")
HEAD = """# {title}

Written from the files of `configs/{folder}`. What a key is stands in the comment beside it there, or beside the field
of its class. `group=option` chooses, `key=value` sets.
"""


def label(file: Path) -> str:
    """The anchor of a file or folder of configs/."""
    return "config-" + re.sub(r"[^a-z0-9]+", "-", file.as_posix().removesuffix(".yaml").lower()).strip("-")


def pages(folder: Path) -> dict[str, str]:
    """Markdown by name: one page for each folder of configs/, one for the files at its top, and an index."""
    groups = sorted(path for path in folder.iterdir() if path.is_dir() and path.name != "local")
    made = {group.name: _page(f"`{group.name}`", _files(group), folder, group) for group in groups}
    made["commands"] = _page("Commands", sorted(folder.glob("*.yaml")), folder, folder)
    return made | {"index": _index(groups, folder)}


def _files(group: Path) -> list[Path]:
    """Those of the folder itself before those of folders in it."""
    return sorted(group.rglob("*.yaml"), key=lambda file: (file.parent, file.name))


def _index(groups: list[Path], folder: Path) -> str:
    lines = [
        "# Settings",
        "",
        "Every group of `configs/`, its options, and each key with its default. `isentropic train --help` lists groups "
        "and options, `print_config=true` says of a run which file each value came from.",
        "",
        "| group | options |",
        "| --- | --- |",
    ]
    for group in groups:
        for inner in sorted({file.parent for file in group.rglob("*.yaml")}):
            options = [f"[`{file.stem}`](#{label(file.relative_to(folder))})" for file in sorted(inner.glob("*.yaml"))]
            lines.append(f"| `{inner.relative_to(folder).as_posix()}` | {', '.join(options)} |")
    names = ["commands", *(group.name for group in groups)]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *names, "```", ""])


def _page(title: str, files: list[Path], folder: Path, group: Path) -> str:
    text = [HEAD.format(title=title, folder=group.relative_to(folder).as_posix().removeprefix("."))]
    last = None
    for file in files:
        if file.parent != last:
            last = file.parent
            name = (
                f"Options of `{last.relative_to(folder).as_posix()}`" if last != folder else "Files of whole commands"
            )
            text.append(f"({_of(last, folder)})=\n## {name}\n")
        text.append(_option(file, folder))
    return "\n".join(text)


def _of(folder: Path, root: Path) -> str:
    return label(folder.relative_to(root)) + "-group"


def _option(file: Path, folder: Path) -> str:
    text, relative = file.read_text(), file.relative_to(folder)
    name = f"{relative.parent.as_posix()}={relative.stem}" if relative.parent != Path() else relative.stem
    lines = [f"({label(relative)})=", f"### `{name}`", ""]
    if head := _head(text):
        lines += [head, ""]
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    rows = _rows(node, text.splitlines(), "", "") if isinstance(node, yaml.MappingNode) else []
    if isinstance(node, yaml.MappingNode):
        lines += [*_basis(node), *_parts(node), ""]
    if rows:
        told = 3 if any(row[2] for row in rows) else 2  # where nothing is said of any key, its column is left out
        head = ["key", "default", ""], ["---"] * 3
        lines += [*(f"| {' | '.join(row[:told])} |" for row in (*head, *rows)), ""]
    return "\n".join(lines)


def _head(text: str) -> str:
    """The comment at the top of the file."""
    comments: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @"):
            comments.append(_plain(line.lstrip("# ")))
    text = " ".join(comments)
    return re.sub(r"(?<=[.\w]) (?=Formula: )", "\\\n", text)


def _basis(node: yaml.MappingNode) -> list[str]:
    """What a file takes from others, and the class that it sets."""
    found: list[str] = []
    for key, value in node.value:
        if key.value == "defaults" and isinstance(value, yaml.SequenceNode):
            parts = [", ".join(_default(one)) for one in value.value]
            found.append("Takes " + ", ".join(f"`{part}`" for part in parts if part != "_self_") + ".\n")
    return found


def _parts(node: yaml.MappingNode) -> list[str]:
    """Each class that a file sets, with the first line of what it says of itself."""
    found: list[str] = []
    for key, value in node.value:
        if key.value == "_target_":
            link = f"{{py:obj}}`{value.value}`" if value.value.startswith("isentropic.") else f"`{value.value}`"
            found.append(f"{link}: {_plain(first_line_of(value.value))}".removesuffix(": ") + "\n")
        if isinstance(value, yaml.MappingNode):
            found += _parts(value)
    return list(dict.fromkeys(found))


def _default(node: yaml.Node) -> list[str]:
    if isinstance(node, yaml.MappingNode):
        return [f"{key.value}: {_text(value)}" for key, value in node.value]
    return [str(node.value)]


def _rows(node: yaml.MappingNode, lines: list[str], above: str, target: str) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    target = next((value.value for key, value in node.value if key.value == "_target_"), target)
    for key, value in node.value:
        if key.value in SKIPPED:
            continue
        name = f"{above}.{key.value}".strip(".")
        within = node.flow_style and above  # a line of its own has no comment but that of the whole
        said = "" if within else _beside(lines[key.start_mark.line])
        said = said or comments_of(target).get(key.value, "")
        if isinstance(value, yaml.MappingNode) and value.value:
            if said:
                rows.append((f"`{name}`", "", _plain(said)))
            rows += _rows(value, lines, name, "")
        else:
            rows.append((f"`{name}`", f"`{_text(value)}`", _plain(said)))
    return rows


def _beside(line: str) -> str:
    """The comment behind a key; a # within quotes is none."""
    found = re.search(r"(?:^|\s)#\s*(.*)$", re.sub(r"'[^']*'|\"[^\"]*\"", lambda quoted: "_" * len(quoted[0]), line))
    return line[found.start(1) :].strip() if found else ""


def _text(node: yaml.Node) -> str:
    if isinstance(node, yaml.SequenceNode):
        return f"[{', '.join(map(_text, node.value))}]"
    if isinstance(node, yaml.MappingNode):
        return f"{{{', '.join(f'{key.value}: {_text(value)}' for key, value in node.value)}}}"
    text = " ".join(str(node.value).split()) if node.tag != "tag:yaml.org,2002:null" else "null"
    return (text if len(text) <= 90 else text[:87] + "...").replace("|", "\\|").replace("`", "'") or "''"


def _plain(text: str) -> str:
    """Of a comment: code stays, all else is text, also where Markdown would read markup."""
    parts = re.split(r"(`[^`]+`)", text)
    escaped = [re.sub(r"([\\*_|\[\]<>{}$#])", r"\\\1", part) if i % 2 == 0 else part for i, part in enumerate(parts)]
    return "".join(escaped)
