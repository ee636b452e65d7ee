"""The page of `notebook.ipynb`: its prose, code and kept outputs in Markdown, for the site; nothing is run."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat


def write_notebook(docs: Path) -> None:
    """Writes the page, and its pictures beside it, into the folder of pages that git leaves out."""
    folder = docs / "reference"
    folder.mkdir(exist_ok=True)
    text = "\n\n".join(_parts(nbformat.read(docs / "notebook.ipynb", as_version=4).cells, folder)) + "\n"
    page = folder / "notebook.md"
    # What stands is left alone: Sphinx reads a page again whose file is newer.
    if not page.is_file() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")


def _parts(cells: list[Any], folder: Path) -> Iterator[str]:
    for cell in cells:
        if cell.cell_type == "markdown":
            yield cell.source
            continue
        yield f"```python\n{cell.source}\n```"
        for number, output in enumerate(cell.outputs):
            yield _output(output, folder / f"notebook-{cell.id}-{number}.png")


def _output(output: Any, picture: Path) -> str:
    if output.output_type == "error":
        return _text("\n".join(output.traceback))
    if output.output_type == "stream":
        return _text(output.text)
    if "image/png" in output.data:
        picture.write_bytes(base64.b64decode(output.data["image/png"]))
        return f"![Picture that the cell above draws]({picture.name})"
    if "text/html" in output.data:
        return f"````{{raw}} html\n<div>{output.data['text/html']}</div>\n````"
    return _text(output.data["text/plain"])


def _text(text: str) -> str:
    return f"````text\n{text.rstrip()}\n````"
