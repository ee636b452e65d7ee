"""Files as other programs write them."""

from __future__ import annotations

from concord.schemas.columns import table_from_documents
from concord.schemas.document import Document


def conll(documents: list[Document]) -> str:
    """Documents as a CoNLL-2003 file."""
    lines: list[str] = []
    for row in table_from_documents(documents).to_pylist():
        lines.append("-DOCSTART- -X- O O")
        starts = set(row["sentence_starts"])
        for t, columns in enumerate(zip(row["tokens"], row["pos"], row["labels"], strict=True)):
            lines += [""] if t in starts else []
            lines.append("{} {} I-X {}".format(*columns))
        lines.append("")
    return "\n".join(lines)
