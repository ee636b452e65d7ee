"""A prompt for whoever writes rules, a language model or a person: what a model gets wrong, and how rules are written.

Nothing is sent anywhere. What comes back is a file of constraints, and `concord constraints check` is its referee.
"""

from __future__ import annotations

import inspect
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise, zip_longest
from typing import Any, NamedTuple

from concord.flows.commands.constraints import gold_labels
from concord.flows.commands.requests import ProposeRequest
from concord.flows.inputs.output_places import check_file_place
from concord.flows.labelling.documents import first_documents, shards_for
from concord.flows.labelling.sources import open_model
from concord.flows.screen.progress import meter
from concord.schemas.document import Batch, Document
from concord.schemas.errors import CorpusError
from concord.schemas.labels import LabelSet
from concord.schemas.reports import ProposalReport
from concord.schemas.shown import marked_text, marked_tokens
from concord.workers.constraints.file_schema import file_schema
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.models.model import viterbi_labels
from concord.workers.storage.files import write_whole

PROMPT = """\
# Rules for labels of text

A model labels words of documents: {types}. Below are {shown} of the {wrong} sentences of {documents} documents in
which its labels are not those of people, each kind of error in turn. Write rules that would mend errors such as these,
and no rule that right sentences break.

- Answer with one YAML file and nothing else. It has a list `constraints`; each entry has a `template` of those below,
  what that needs, a `name` in plain words, and a `weight`: `hard`, or a price in nats for each time that it is broken.
  1 is little, 5 is much.
- Few rules that hold nearly always are better than many. A rule reads words, patterns and labels.

## What is wrong

{errors}
## Templates

{templates}

## The file, as a JSON Schema

```json
{schema}
```
"""


_TypedSpan = tuple[int, int, str]
"""First token, end and type of a span."""


class _WrongSentence(NamedTuple):
    """A sentence that the model labels otherwise than gold.

    - ``kind``: types of spans that gold alone has, and that the model alone has.
    - ``gold``, ``model``: the sentence with its spans, by both.
    """

    kind: tuple[tuple[str, ...], tuple[str, ...]]
    doc_id: str
    gold: str
    model: str


def propose(request: ProposeRequest) -> ProposalReport:
    """Writes the prompt. Raises `CorpusError` where the model has no error, and the errors of reading and writing."""
    check_file_place(request.out, [request.corpus, request.model])
    model = open_model(request.model, request.context).model
    shards = shards_for(request.corpus, model, request.model)
    labels, wrong, documents = gold_labels(request.corpus, shards), list[_WrongSentence](), 0
    with meter("looking for errors", min(request.documents, sum(shard.rows for shard in shards))) as bar:
        for batch in first_documents(shards, request.documents):
            names = model.labels.names
            answer = [names[label] for label in viterbi_labels(model, batch)] if len(batch) else []
            wrong += chain.from_iterable(_wrong_sentences(batch, labels, model.labels, answer))
            documents += len(batch)
            bar.advance(len(batch))
    if not wrong:
        raise CorpusError(
            f"{request.corpus}: the model has all labels right; give documents that it has not learned from"
        )
    shown = _in_turn(wrong)[: request.errors]
    text = PROMPT.format(
        types=", ".join(labels.types),
        shown=len(shown),
        wrong=f"{len(wrong):,}",
        documents=f"{documents:,}",
        errors="".join(f"- {one.doc_id}\n  - people: {one.gold}\n  - model: {one.model}\n" for one in shown),
        templates="\n".join(f"- `{name}`: {_summary(one)}" for name, one in TEMPLATES.items()),
        schema=json.dumps(file_schema()),
    )
    write_whole(request.out, text.encode())
    return ProposalReport(
        corpus=request.corpus,
        model=request.model,
        documents=documents,
        errors=len(wrong),
        shown=len(shown),
        templates=len(TEMPLATES),
        out=str(request.out),
    )


def _summary(template: type[Any]) -> str:
    """The first paragraph of what is said of a template."""
    return " ".join((inspect.getdoc(template) or "").partition("\n\n")[0].split())


def _wrong_sentences(
    batch: Batch, gold: LabelSet, labels: LabelSet, answer: list[str]
) -> Iterator[Iterable[_WrongSentence]]:
    for number, document in enumerate(batch):
        if document.labels is not None:
            first = int(batch.doc_starts[number])
            yield _wrong_in(document, gold, labels, answer[first : first + len(document)])


def _wrong_in(document: Document, gold: LabelSet, labels: LabelSet, answer: list[str]) -> Iterator[_WrongSentence]:
    assert document.labels is not None
    tokens, bounds = document.tokens, [*document.sentence_starts.tolist(), len(document)]
    own = [_spans(one, names, document) for one, names in ((gold, document.labels.strings()), (labels, answer))]
    for start, end in pairwise(bounds):
        by_gold, by_model = ([span for span in spans if start <= span[0] < end] for spans in own)
        if by_gold != by_model:
            texts = (_shown(tokens[start:end], start, spans) for spans in (by_gold, by_model))
            yield _WrongSentence(
                (_types_apart(by_gold, by_model), _types_apart(by_model, by_gold)), document.doc_id, *texts
            )


def _types_apart(spans: Iterable[_TypedSpan], others: Iterable[_TypedSpan]) -> tuple[str, ...]:
    """Types of the spans that the others do not have."""
    return tuple(sorted({kind for _, _, kind in {*spans} - {*others}}))


def _spans(labels: LabelSet, names: Iterable[str], document: Document) -> list[_TypedSpan]:
    spans = labels.spans(labels.encode(list(names)), document.sentence_starts)
    types = [labels.types[kind] for kind in spans.type]
    return list(zip(spans.start.tolist(), spans.end.tolist(), types, strict=True))


def _shown(tokens: list[str], first: int, spans: Iterable[_TypedSpan]) -> str:
    entities = [{"start": start - first, "end": end - first, "type": kind} for start, end, kind in spans]
    return marked_text(*marked_tokens(tokens, entities))


def _in_turn(wrong: Iterable[_WrongSentence]) -> list[_WrongSentence]:
    """One sentence of each kind, the most frequent kind first; then a second one of each, and so on."""
    kinds = defaultdict[Any, list[_WrongSentence]](list)
    for one in wrong:
        kinds[one.kind].append(one)
    turns = zip_longest(*sorted(kinds.values(), key=len, reverse=True))
    return [one for turn in turns for one in turn if one is not None]
