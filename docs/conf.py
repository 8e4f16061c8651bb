"""Configuration of the documentation site: ``make docs`` builds it from these pages.

The pages are plain Markdown that GitHub shows as well, so nothing of the site's machinery is in
them: the navigation is made from the lists of links in ``index.md``, and links to files above
``docs`` lead to pages of the site.
"""

from __future__ import annotations

import re
import sys
import typing
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sphinx.util.inspect
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode
from sphinx.writers.html5 import HTML5Translator
from sphinx_gallery.sorting import ExplicitOrder

DOCS = Path(__file__).parent
for part in ("paper", "serve", "."):
    sys.path.insert(0, str(DOCS.parent / part / "src"))

from mixts import __version__  # noqa: E402

project = "mixts"
author = "The mixts developers"
copyright = author
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = [
    "_templates",
    "images/*.py",
    "gallery/*.ipynb",
    "gallery/*.py",
    "**/GALLERY_HEADER.*",
]
highlight_language = "text"

# -- pages ---------------------------------------------------------------------------------------

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_fence_as_directive = ["math"]

ABOVE = {"CHANGELOG.md": "changelog", "CONTRIBUTING.md": "contributing", "README.md": "index"}
"""Pages of the site for files above ``docs``."""

OTHER = re.compile(r"\[([^]]+)\]\(([A-Z_]+(?:\.\w+)?)\)")
"""Link from one file above ``docs`` to another, which the site does not have."""

HEADING = re.compile(r"## (.+)")
PAGE = re.compile(r"- \[(?P<title>.*?)\]\((?P<page>[^):#]+\.(?:md|rst))\)")


def navigation(text: str) -> str:
    """Return the toctrees of a page: one for each section, of the pages that its lists name."""
    trees: dict[str, list[str]] = {}
    caption = ""
    for line in text.splitlines():
        if heading := HEADING.fullmatch(line):
            caption = heading[1]
        elif link := PAGE.match(line):
            trees.setdefault(caption, []).append(f"{link['title']} <{link['page']}>")
    return "".join(
        "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])
        for caption, pages in trees.items()
    )


def read_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Turn links to files above ``docs`` into links to pages, and add what only the site has.

    The first page gets its navigation. Pages that are only a link to such a file on GitHub get its
    text.
    """
    file = next((file for file, page in ABOVE.items() if page == name != "index"), None)
    if file is not None:
        above = DOCS.parent / file
        source[0] = above.read_text(encoding="utf-8").replace("](docs/", "](")
        app.env.note_dependency(str(above))
    for file, page in ABOVE.items():
        source[0] = re.sub(rf"\]\((\.\./)*{file}", f"](/{page}.md", source[0])
    source[0] = re.sub(r"\]\((\.\./)*examples/gallery/?\)", "](/gallery/index.rst)", source[0])
    if file is not None:
        source[0] = OTHER.sub(r"\1 (`\2`)", source[0])
    if name == "index":
        source[0] += navigation(source[0])


# -- formulas: MathML, which browsers draw by themselves -------------------------------------------

html_math_renderer = "mathml"
FONT = Path(find_spec("ziamath").submodule_search_locations[0], "fonts", "STIXTwoMath-Regular.ttf")


def visit_math(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line of text."""
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_math_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    translator.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


# -- API reference -------------------------------------------------------------------------------

autosummary_generate = sorted(str(page) for page in DOCS.glob("api/*.rst"))
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
add_module_names = False
# Classes that only attributes of documented classes name, such as ``posterior_type``.
nitpick_ignore_regex = [("py:class", r"mixts.*(Posterior|IndependentRewards|Recorder)")]
toc_object_entries_show_parents = "hide"

# Show annotations as they are written, such as Float[Array, "n_tasks L"], not what they mean at
# run time: Sphinx keeps the text where it learns of no type.
sphinx.util.inspect.typing = SimpleNamespace(
    **{**vars(typing), "get_type_hints": lambda *_, **__: {}}
)

# Abbreviations such as Eq. 7 in tags: a word joiner keeps the point from ending a sentence.
ABBREVIATIONS = re.compile(r"\b(Alg|App|Eq|Fig|Sec|Thm)\. ")
# Bars of formulas such as |X|, outside of literals: reST would read a substitution.
BARS = re.compile(r"``.+?``|\|(?=[\w|])|(?<=[\w)'|])\|")


def mend_docstring(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Keep abbreviations whole in summaries, and escape the bars of formulas."""
    lines[:] = [ABBREVIATIONS.sub("\\1.\u2060 ", line) for line in lines]
    lines[:] = [
        BARS.sub(lambda match: match[0].replace("|", r"\|", len(match[0]) == 1), line)
        for line in lines
    ]


def skip_member(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> Any:
    """Leave out what classes inherit from other libraries."""
    home = getattr(getattr(obj, "fget", obj), "__module__", None) or "mixts"
    return None if home.startswith("mixts") else True


def resolve(app: Sphinx, env: Any, node: nodes.Element, content: nodes.Element) -> Any:
    """Link a name to its public page, whichever module the docstring or annotation means.

    Names in annotations that have no page, most of them of other libraries, remain text. Only roles
    in docstrings say whether they are explicit.
    """
    if node.get("refdomain") != "py":
        return None
    parts = node["reftarget"].split(".")
    while len(parts) > 1 and parts[0].islower():
        parts = parts[1:]
    domain = env.domains.python_domain
    found = domain.find_obj(env, "", "", ".".join(parts), None, 1)
    if found:
        name, entry = min(found, key=lambda match: len(match[0]))
        return make_refnode(
            app.builder, node["refdoc"], entry.docname, entry.node_id, content, name
        )
    return None if "refexplicit" in node else content


# -- gallery -------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    # The simplest examples first; new ones come before the last.
    "within_subsection_order": ExplicitOrder(
        f"plot_{name}.py" if name != "*" else name
        for name in (
            *("first_visitor", "clicks", "prices", "counts", "revenue", "households", "features"),
            *("late_feedback", "new_items", "refits", "many_tasks", "*", "unknown_kind"),
            *("route_models", "riverswim", "frozen_lake"),
        )
    ),
    "plot_gallery": "check" not in tags,  # noqa: F821 - Sphinx defines tags
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 3600,
    "write_computation_times": False,
    "abort_on_example_error": True,
}

# -- looks ---------------------------------------------------------------------------------------

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"mixts {version}"
html_static_path = ["_static", str(FONT)]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
copybutton_selector = "div:not(.highlight-output) > div.highlight > pre"
copybutton_exclude = ".linenos, .gp, .go"


def setup(app: Sphinx) -> None:
    """Connect the functions of this file."""
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", mend_docstring)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("missing-reference", resolve)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
