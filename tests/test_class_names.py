"""Sentences name classes that are there, and between backticks: what a renaming left behind, or put into a sentence."""

from __future__ import annotations

import ast
import builtins
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE = tuple(path for top in ("concord", "tests", "benchmarks") for path in sorted((ROOT / top).rglob("*.py")))
PAGES = (
    *sorted(ROOT.glob("*.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "reference"),
    *sorted((ROOT / "benchmarks").rglob("*.md")),
)
CAMEL = re.compile(r"(?<![\w.`/])[A-Z][a-z]+\w*[A-Z]\w*")
NAME = re.compile(r"([A-Z][a-z]\w*)((?:\.\w+)*)(?:\(.*\))?")
TICKS = re.compile(r"`+([^`]+)`+")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^(?: {4}|>>>|\.\.\. ).*$", re.MULTILINE)
# fmt: off
PROPER = frozenset({
    "AnyStyle", "BioCreative", "CoNLL", "DataTurks", "DerSimonian", "DuckDB", "GeoNames", "GiB", "GloVe", "HiGHS",
    "KiB", "KubeRay", "LangExtract", "MaliVai", "McCallum", "MiB", "MiniLM", "NaN", "NeurIPS", "NonLoc", "NumPy",
    "OntoNotes", "OpenMP", "PostgreSQL", "PubMed", "PubTator", "PyArrow", "PyPI", "RayCluster", "RoBERTa", "SemVer",
    "SemiCRF", "TiMBL", "WebAnno",
})
# fmt: on
"""Names of people, programs, units and corpora that are written so."""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def names() -> frozenset[str]:
    """Every name of the code: what it defines, imports and uses, and strings that are names."""
    known = set(dir(builtins))
    for path in CODE:
        for node in ast.walk(parsed(path)):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                    known.add(name)
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                    known.add(name)
                case ast.alias(name=name, asname=other):
                    known |= {*name.split("."), other or ""}
                case ast.Constant(value=str() as text) if re.fullmatch(r"[\w.]+", text):
                    known |= {*text.split(".")}
    return frozenset(known)


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings and comments of a file, with their lines; code in them is left out."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, INDENTED.sub("", inspect.cleandoc(node.value.value))
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def gone(text: str) -> list[str]:
    """Names between backticks, in capitals as classes are, that the code does not have."""
    named = (NAME.fullmatch(" ".join(span.split())) for span in TICKS.findall(text))
    return [one[0] for one in named if one and not {one[1], *one[2].strip(".").split(".")} - {""} <= names()]


def bare(text: str) -> list[str]:
    """CamelCase outside backticks that is no proper name."""
    return [word for word in CAMEL.findall(TICKS.sub(" ", text)) if word not in PROPER]


@pytest.mark.parametrize("text", ["See `Gone.method`.", "See ``Gone``.", "`Document.gone` of a document."])
def test_a_name_that_is_not_there_is_seen(text: str) -> None:
    assert gone(text.replace("gone", "no_such" + "_method").replace("Gone", "NoSuch" + "Class"))
    assert not gone("`Document.build` and `Document`")


def test_a_class_in_a_sentence_is_seen() -> None:
    assert bare("TaggerAnswers of taggers, `TaggerAnswers`, CoNLL") == ["TaggerAnswers"]


def test_sentences_of_the_code_name_what_is_there() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in CODE
        if path != Path(__file__)
        for line, text in sentences(path)
        for word in (*gone(text), *bare(text))
    ]
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_class_stands_in_a_sentence_of_a_page(page: Path) -> None:
    text = re.sub(r"\]\([^)]*\)", "]", INDENTED.sub("", FENCE.sub("", page.read_text())))
    assert not bare(text)
