"""Lays out what Sphinx reads: pages of docs/ and from elsewhere, and those that are made of configs and source."""

import os
import re
import shutil
from pathlib import Path

import errors
import yaml

import configs

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DOCS, PACKAGE = ROOT / "docs", ROOT / "src" / "isentropic"
CONFIGS = PACKAGE / "configs"
ELSEWHERE = {  # pages that lie beside their subject, where they are looked for
    ROOT / "CONTRIBUTING.md": "project/CONTRIBUTING.md",
    ROOT / "CHANGELOG.md": "project/CHANGELOG.md",
    ROOT / "benchmarks" / "README.md": "project/benchmarks.md",
    ROOT / "README.md": "index.md",
}
SHOWN = ELSEWHERE | {CONFIGS: "configs/index.md", HERE / "errors.py": "errors.md"}  # where a link to it leads
MADE = ("configs/index", "errors", "api/isentropic/index")  # of configs/ and source, by none of the files of docs/
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1[ ]*$", re.M | re.S)


def version() -> str:
    """Read from the source, which this environment cannot import."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "src" / "isentropic" / "__init__.py").read_text(), re.M)
    assert found, "src/isentropic/__init__.py names no version"
    return found[1]


def sections() -> dict[str, list[str]]:
    """Pages by section, those that are there."""
    named = yaml.safe_load((HERE / "sections.yaml").read_text())
    return {title: [page for line in lines if (page := _listed(line))] for title, lines in named.items()}


def _listed(line: str) -> str | None:
    page, optional = line.removesuffix("?"), line.endswith("?")
    return page if not optional or (DOCS / f"{page}.md").is_file() else None


def pages() -> list[str]:
    """Every page of docs/, as a path without .md."""
    return [path.relative_to(DOCS).with_suffix("").as_posix() for path in sorted(DOCS.rglob("*.md"))]


def stage(out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(DOCS, out, ignore=shutil.ignore_patterns("site", "*.html", "*.tex", "__pycache__"))
    for path, page in ELSEWHERE.items():
        if page != "index.md":
            (out / page).parent.mkdir(exist_ok=True)
            shutil.copy(path, out / page)
    came_from = {out / page: path for path, page in ELSEWHERE.items() if page != "index.md"}
    for page in sorted(out.rglob("*.md")):
        source = came_from.get(page, DOCS / page.relative_to(out))
        text = re.sub(r"^<!-- needs ([^>]+) -->$", r"*Needs \1:*\n", page.read_text(), flags=re.M)
        page.write_text(relinked(text, source, page, out))
    for name, text in configs.pages(CONFIGS).items():
        (out / "configs").mkdir(exist_ok=True)
        (out / "configs" / f"{name}.md").write_text(text)
    (out / "errors.md").write_text(errors.page())
    index = out / "index.md"
    index.write_text(index.read_text() + "".join(_toctree(title, listed) for title, listed in sections().items()))


def _toctree(title: str, listed: list[str]) -> str:
    return "\n```{toctree}\n:hidden:\n:caption: " + title + "\n\n" + "\n".join(listed) + "\n```\n"


def relinked(text: str, source: Path, page: Path, out: Path) -> str:
    """Links out of docs/ lead to the page that the site has of it, and what no page shows can be downloaded."""

    def replaced(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        if re.match(r"[a-z]+:|#", target) or picture:
            return link[0]
        name, _, anchor = target.partition("#")
        path = Path(os.path.normpath(source.parent / name))
        return _leading(words, path, anchor, page, out) if path.exists() else link[0]

    parts, at = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(replaced, text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, LINK.sub(replaced, text[at:])])


def _leading(words: str, path: Path, anchor: str, page: Path, out: Path) -> str:
    real = path.resolve()
    if real in SHOWN:
        return _to(words, out / SHOWN[real], anchor, page)
    if real.is_relative_to(CONFIGS):
        return f"[{words}](#{configs.label(real.relative_to(CONFIGS))}{'-group' if real.is_dir() else ''})"
    if real.is_relative_to(PACKAGE) and (real.is_dir() or real.suffix == ".py"):
        module = ".".join(real.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        return f"{{py:mod}}`{words.strip('`')} <{module}>`"
    if real.is_relative_to(DOCS) and real.suffix == ".md":
        target = out / real.relative_to(DOCS)
    elif real.is_file():
        target = out / "files" / real.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(real, target)
    else:
        return words
    return _to(words, target, anchor, page)


def _to(words: str, target: Path, anchor: str, page: Path) -> str:
    return f"[{words}]({os.path.relpath(target, page.parent)}{'#' + anchor if anchor else ''})"
