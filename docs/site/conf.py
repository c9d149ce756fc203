"""How Sphinx builds the site from what stage.py has laid out."""

import logging
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

from sphinx.addnodes import toctree
from sphinx.domains.python import ObjectEntry, PythonDomain
from sphinx.search.en import SearchEnglish

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import stage  # noqa: E402
from docstrings import restructured  # noqa: E402
from fields import comments_of  # noqa: E402

project, author, release = "Isentropic", "The Isentropic authors", stage.version()
extensions = ["autoapi.extension", "myst_parser"]
html_theme, html_title = "furo", f"Isentropic {release}"
html_static_path, templates_path = [str(HERE / "static")], [str(HERE / "templates")]
html_css_files = ["site.css"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_copy_source, html_show_sphinx, html_show_copyright, smartquotes = False, False, False, False
html_show_search_summary = False  # a page from disk may not fetch another
highlight_language = "text"
pygments_style, pygments_dark_style = "tango", "monokai"
exclude_patterns = ["files/**"]
myst_heading_anchors = 4

autoapi_dirs = [str(ROOT / "src" / "isentropic")]
autoapi_root, autoapi_add_toctree_entry = "api", False
autoapi_own_page_level = "module"
autoapi_options = ["members", "undoc-members", "show-module-summary"]
autoapi_member_order = "bysource"
autoapi_python_class_content = "class"
logging.getLogger("sphinx").setLevel(logging.INFO)  # or a record is made of each step of each page, and shown nowhere
# of a name that two modules share, annotations mean either
suppress_warnings = ["autoapi.python_import_resolution", "ref.python"]


def read_plainly(app, what, name, obj, options, lines):
    """Docstrings are plain text."""
    lines[:] = [*restructured("\n".join(lines)).splitlines(), ""]


def described_beside(app, what, name, obj, skip, options):
    """What a setting is stands in the comment beside it. What is skipped stays as it is."""
    if what == "attribute" and not obj.docstring:
        owner, _, field = obj.id.rpartition(".")
        obj.docstring = restructured(comments_of(owner).get(field, ""))


WITHIN = re.compile(r"(api/isentropic/.+)/[^/]+/index$")  # pages of modules in a room


def short_menu(app, env):
    """Of the API the menu has the rooms, whose pages list their modules; with all, each page is five times as long."""
    for name, contents in env.tocs.items():
        if re.match(r"api/isentropic/.+/index$", name):
            for inner in list(contents.findall(toctree)):
                inner.parent.remove(inner)


def titles_of(contents):
    """What a menu of titles keeps of the contents of a page."""
    contents = contents.deepcopy()
    for title in contents:
        if len(title) > 1:
            title[1][:] = list(title.findall(toctree))
            if not len(title[1]):
                title.pop(1)
    return contents


def menu_of_titles(app, pagename, templatename, context, doctree):
    """Sphinx would copy the contents of all pages for the menu of each, and then drop all but these."""
    if not hasattr(app, "titles"):
        app.menus, app.titles = {}, {name: titles_of(contents) for name, contents in app.env.tocs.items()}
    menu = context.get("toctree")

    def of_titles(**settings):
        within = WITHIN.match(pagename)  # pages that are no entries themselves have the menu of their neighbours
        place = within[1] if within else pagename, *sorted(settings.items())
        if place not in app.menus:
            contents, app.env.tocs = app.env.tocs, app.titles
            try:
                app.menus[place] = menu(**settings)
            finally:
                app.env.tocs = contents
        return app.menus[place]

    if menu:
        context["toctree"] = of_titles


class OwnNames(PythonDomain):
    """Of annotations most are no names of ours, and Sphinx compares each of them with all that there are."""

    known: tuple[int, dict[str, dict[str, ObjectEntry]]] = 0, {}
    asked: dict[str, ObjectEntry] | None = None

    @property
    def objects(self) -> dict[str, ObjectEntry]:
        return self.data.setdefault("objects", {}) if self.asked is None else self.asked

    def find_obj(self, env, modname, classname, name, type, searchmode=0):
        if self.known[0] != len(self.objects):
            found = defaultdict(dict)
            for one, entry in self.objects.items():
                found[one.rpartition(".")[2]][one] = entry
            self.known = len(self.objects), found
        self.asked = self.known[1].get(name.removesuffix("()").rpartition(".")[2], {})
        try:
            return super().find_obj(env, modname, classname, name, type, searchmode)
        finally:
            self.asked = None


class English(SearchEnglish):
    """Finds the stem of each word once: pages share most of them."""

    def __init__(self, options):
        super().__init__(options)
        self.stem = cache(super().stem)


def setup(app):
    app.add_domain(OwnNames, override=True)
    app.add_search_language(English)
    app.connect("env-updated", short_menu)
    app.connect("html-page-context", menu_of_titles, priority=499)  # the theme makes its menu at 500
    app.connect("autodoc-process-docstring", read_plainly)
    app.connect("autoapi-skip-member", described_beside)
