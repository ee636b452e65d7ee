"""How Sphinx builds the site of these pages: ``make docs``. Nothing is fetched; a warning is an error."""

from __future__ import annotations

import sys
from importlib import metadata
from os.path import relpath
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

sys.path.insert(0, str(Path(__file__).parent))

from notebook_page import write_notebook
from reference import write_reference

project = "concord"
author = "The authors of concord"
project_copyright = "2026, the authors of concord"
release = version = metadata.version("concord-nlp")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"concord {release}"
html_static_path = ["_static"]
html_css_files = ["concord.css"]
html_js_files = ["copy.js"]
myst_heading_anchors = 4
suppress_warnings = ["myst.xref_missing", "misc.highlighting_failure"]
"""Links to files of the repository (code, licence) are to no page: a test follows them. Some examples are no YAML."""

LOG = Path(__file__).parents[1] / "benchmarks"
html_extra_path = [str(path) for path in (LOG / "RESULTS.md", *sorted((LOG / "results").glob("*.md")))]
"""The log of measurements stands beside the pages as it is, in Markdown."""

default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
add_module_names = False


def link_to_log(app: Any, page: nodes.document) -> None:
    """Makes links to the log, which is no page, links to its files."""
    for node in list(page.findall(addnodes.pending_xref)):
        file = f"{node['reftarget']}.md"
        if file in html_extra_path:
            uri = relpath(Path(file).name, Path(app.env.docname).parent)
            node.replace_self(nodes.reference("", "", *node.children, refuri=uri))


def setup(app: Any) -> None:
    """Writes the pages that are made of the code before any page is read, and links the log."""
    app.connect("doctree-read", link_to_log)
    app.connect("builder-inited", lambda built: write_reference(Path(built.srcdir) / "reference"))
    app.connect("builder-inited", lambda built: write_notebook(Path(built.srcdir)))
