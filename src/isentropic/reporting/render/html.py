"""Templates to one file that opens from disk and asks nothing of a network."""

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = "assets/report"


def write(template: str, out: Path, scripts: list[str], styles: list[str], **values: Any) -> Path:
    """Fills a template, with scripts and styles inside. The page may run these scripts and load nothing at all."""
    code = [asset(name) for name in scripts]
    page = environment().get_template(template)
    out.parent.mkdir(parents=True, exist_ok=True)
    text = page.render(
        scripts=[Markup(text) for text in code],
        styles=[Markup(asset(name)) for name in styles],
        policy=policy(code),
        **values,
    )
    out.write_text(text, encoding="utf-8")
    return out


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("isentropic", TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.filters["data"] = data
    return made


def asset(name: str) -> str:
    return (resources.files("isentropic") / TEMPLATES / name).read_text(encoding="utf-8")


def policy(scripts: list[str]) -> str:
    """Content security: these scripts, by their hashes, whatever else a model or a run's name may have smuggled in."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes) or "'none'"
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:"


def data(value: Any) -> Markup:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
