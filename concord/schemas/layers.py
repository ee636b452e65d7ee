"""Layers of a corpus: the answers of taggers, beside the words and apart from gold labels.

A layer NAME is three Parquet columns, a row a document:

- ``NAME_spans``: the tagger's spans as they came (`LAYER_SPAN`); null for a document without answers.
- ``NAME``: a token column of them in BIO under the tagger's own names; `NO_ANSWER` at every token of a document without
  answers.
- ``NAME_grade``: a token column of how sure the tagger was, see `grade_of`.
- ``NAME_candidates``, where candidates were asked for: a token column of all spans that begin at the token, with their
  scores, see `candidate_values`.

The token columns are listed in the file's metadata like any others, so that features and constraints read them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa

from concord.schemas.columns import COLUMNS_KEY, CORPUS_LAYOUT, STRINGS
from concord.schemas.document import TOKENS
from concord.schemas.errors import InputError
from concord.schemas.labels import OUTSIDE
from concord.schemas.names import PLAIN_NAME, PLAIN_NAMES

LAYER_SPAN = pa.struct(
    [
        ("label", pa.string()),
        ("char_start", pa.int32()),
        ("char_end", pa.int32()),
        ("score", pa.float64()),
        ("alignment", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
    ]
)
"""A span of a layer: label, and characters of the text that the tagger saw (end exclusive), as they came; its score and
class of alignment, if any; its tokens (end exclusive), null where it begins or ends inside a token."""
SPANS_SUFFIX, GRADE_SUFFIX, CANDIDATES_SUFFIX = "_spans", "_grade", "_candidates"
NO_CANDIDATES = "[]"
"""Candidates of a token at which none begins."""
NO_ANSWER = "?"
"""Label of every token of a document for which the tagger has given no answer, not even that there is nothing."""
NO_GRADE = "-"
"""Grade of a token without a span, or of a span without score and class."""
T = TypeVar("T")


ABOVE = "|"
"""Between the types that a label of a layer stands for, where it is above several."""


def types_under(label: str) -> tuple[str, ...]:
    """Types that a label of a layer stands for: itself, or all of those that it is above."""
    return tuple(label.split(ABOVE))


class LayerError(InputError):
    """A layer cannot be made or read; the message says why, and what to do."""


def check_layer_name(name: str) -> None:
    """Raises `LayerError` for a name that no layer can have."""
    if not PLAIN_NAME.fullmatch(name) or name.endswith((SPANS_SUFFIX, GRADE_SUFFIX, CANDIDATES_SUFFIX)):
        raise LayerError(f"--name {name}: want {PLAIN_NAMES}, such as spacy-sm")
    if name in {*CORPUS_LAYOUT.required.names, *CORPUS_LAYOUT.optional.names}:
        raise LayerError(f"--name {name}: the corpus has a column of its own of that name; take another")


def layer_columns(name: str) -> tuple[str, str, str]:
    """The columns of a layer: tokens' labels, tokens' grades, spans."""
    return name, name + GRADE_SUFFIX, name + SPANS_SUFFIX


def layer_names(schema: pa.Schema) -> list[str]:
    """Names of the layers of a corpus file, in the order of their columns."""
    named = [name.removesuffix(SPANS_SUFFIX) for name in schema.names if name.endswith(SPANS_SUFFIX)]
    return [name for name in named if _is_layer(schema, name)]


def _is_layer(schema: pa.Schema, name: str) -> bool:
    spans = name + SPANS_SUFFIX
    return all(column in schema.names for column in layer_columns(name)) and schema.field(spans).type == pa.list_(
        LAYER_SPAN
    )


def grade_of(score: float | None, alignment: str | None) -> str:
    """How sure a tagger was of a span: its class of alignment, or else its score in tenths, rounded down."""
    if alignment is not None:
        return alignment
    if score is None or math.isnan(score):
        return NO_GRADE
    return f"{math.floor(min(max(score, 0.0), 1.0) * 10 + 1e-9) / 10:.1f}"


def with_layers(table: pa.Table, names: Sequence[str], layers: Sequence[Sequence[pa.Array]]) -> pa.Table:
    """A corpus table with layers, in place of those of the same names.

    - ``layers``: arrays in the order of `layer_columns`, and those of candidates where the layer has some.
    """
    tokens = list[str]()
    for name, arrays in zip(names, layers, strict=True):
        columns = (*layer_columns(name), name + CANDIDATES_SUFFIX)
        for column, values in zip(columns, arrays, strict=False):
            place = table.schema.get_field_index(column)
            table = table.append_column(column, values) if place < 0 else table.set_column(place, column, values)
        if len(arrays) < len(columns) and columns[-1] in table.column_names:
            table = table.drop_columns(columns[-1])
        tokens += [column for column in columns if column != name + SPANS_SUFFIX and column in table.column_names]
    metadata = dict(table.schema.metadata or {})
    listed = [name for name in metadata.get(COLUMNS_KEY, b"").decode().split(",") if name in table.column_names]
    metadata[COLUMNS_KEY] = ",".join(dict.fromkeys([*listed, *tokens])).encode()
    return table.replace_schema_metadata(metadata)


def with_layers_of(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A corpus table with the layers of the corpus that it is added to; its documents have no answers of them."""
    names = [name for name in layer_names(schema) if name not in table.column_names]
    if not names:
        return table
    lengths = [len(tokens) for tokens in table[TOKENS].to_pylist()]
    labels, grades = (pa.array([[value] * n for n in lengths], STRINGS) for value in (NO_ANSWER, NO_GRADE))
    spans = pa.array([None] * len(lengths), pa.list_(LAYER_SPAN))
    arrays = [(labels, grades, spans, *[labels] * (name + CANDIDATES_SUFFIX in schema.names)) for name in names]
    added = with_layers(table, names, arrays)
    if set(added.column_names) != set(schema.names):
        return added
    return added.select(schema.names).replace_schema_metadata(schema.metadata)


def candidate_values(count: int, spans: Sequence[tuple[int, int, str, float]]) -> list[str]:
    """Candidates that begin at each of ``count`` tokens, as JSON: a list of [label, number of tokens, score].

    - ``spans``: first token, token after the last, label, score from 0 to 1.
    """
    at = dict[int, list[tuple[str, int, float]]]()
    for start, end, label, score in sorted(spans):
        at.setdefault(start, []).append((label, end - start, score))
    return [json.dumps(at[t], ensure_ascii=False) if t in at else NO_CANDIDATES for t in range(count)]


def candidates_in(value: str) -> list[tuple[str, int, float]]:
    """Label, number of tokens and score of the candidates at a token; none where there is no answer.

    Raises `ValueError` for a value that is not in the form of `candidate_values`.
    """
    if value in (NO_CANDIDATES, NO_ANSWER):
        return []
    values = json.loads(value)
    for one in values if isinstance(values, list) else [values]:
        match one:
            case [str(), int() as size, int() | float() as score] if size > 0 and 0.0 <= score <= 1.0:
                continue
        raise ValueError(f"want [label, number of tokens, score from 0 to 1], not {one}; import the layer again")
    return [(label, size, float(score)) for label, size, score in values]


def layer_labels(count: int, spans: Sequence[tuple[int, int, str, str]]) -> tuple[list[str], list[str]]:
    """Labels in BIO and grades of ``count`` tokens.

    - ``spans``: first token, token after the last, label, grade, of `shown_spans`.
    """
    labels, grades = [OUTSIDE] * count, [NO_GRADE] * count
    for start, end, label, grade in spans:
        labels[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
        grades[start:end] = [grade] * (end - start)
    return labels, grades


def shown_spans(
    spans: Sequence[tuple[int, int, str, T]], sureness: Callable[[T], float]
) -> list[tuple[int, int, str, T]]:
    """Spans that share no token, in their order: first token, token after the last, label, and what is so sure.

    Of spans that share a token the longest is shown, of equally long ones the surest, and of these the first.
    """
    shown, taken = list[tuple[int, int, str, T]](), set[int]()
    for span in sorted(spans, key=lambda span: (span[0] - span[1], -sureness(span[3]), *span[:3], str(span[3]))):
        places = range(span[0], span[1])
        if taken.isdisjoint(places):
            taken.update(places)
            shown.append(span)
    return sorted(shown, key=lambda span: span[0])
