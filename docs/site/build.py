"""Builds the site into a folder per version: `make docs`, or python docs/site/build.py FOLDER."""

import gc
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from packaging.version import Version  # noqa: E402
from sphinx.cmd.build import main as sphinx  # noqa: E402
from stage import stage, version  # noqa: E402

NEWEST = """<!doctype html>
<meta charset="utf-8">
<title>Isentropic</title>
<meta http-equiv="refresh" content="0; url={0}/index.html">
<a href="{0}/index.html">Isentropic {0}</a>
"""


def main(site: Path) -> int:
    """The exit code: any warning is an error."""
    source, out = site / ".source", site / version()
    gc.disable()  # pages are millions of small objects, among which the search for garbage takes 40 % of the time
    stage(source)
    code = sphinx(
        [
            "-W",
            "--keep-going",
            "-q",
            "-c",
            str(HERE),
            "-d",
            str(site / ".doctrees"),
            str(source),
            str(out),
        ]
    )
    built = sorted((Version(path.parent.name) for path in site.glob("*/index.html")), reverse=True)
    (site / "versions.js").write_text(f"window.versions = {json.dumps([str(one) for one in built])};\n")
    (site / "index.html").write_text(NEWEST.format(built[0]))
    print(f"{out / 'index.html'}" if code == 0 else f"{out} has the faults that are said above")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "site").resolve()))
