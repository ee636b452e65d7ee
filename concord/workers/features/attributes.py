"""Features spelled out as attribute strings: the input of training, and the oracle of the scorer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from concord.schemas.document import Batch, Document
from concord.workers.features.derived import feature_columns
from concord.workers.features.extractors import SEPARATOR, Pieces, clean
from concord.workers.features.templates import AFTER, BEFORE, Conjunction, FeatureSet, Single, Source, Window

MAX_CACHED = 200_000


class AttributeMaker:
    """Makes the attributes of documents; caches those of words.

    A call gives a list of attribute strings for each token. Their order follows the templates, so that equal documents
    give equal lists.
    """

    def __init__(self, features: FeatureSet) -> None:
        self._features = features
        self._cache: dict[str, dict[str, tuple[str, ...]]] = {t.name: {} for t in features.singles}
        self._values: dict[Source, dict[str, str]] = {}

    def __call__(self, document: Document) -> list[list[str]]:
        """The attributes of each of the N tokens."""
        batch = Batch.of([document])
        found = feature_columns(batch, self._features)
        columns = {name: [clean(v) for v in column.strings()] for name, column in found.items()}
        rows: list[list[str]] = [[] for _ in range(len(document))]
        for start, end in pairwise([*document.sentence_starts.tolist(), len(document)]):
            sentence = {name: strings[start:end] for name, strings in columns.items()}
            self._sentence(sentence, rows[start:end])
        return rows

    def _sentence(self, sentence: dict[str, list[str]], rows: list[list[str]]) -> None:
        for template in self._features.templates:
            if isinstance(template, Single):
                self._add_single(template, sentence[template.source.column], rows)
            elif isinstance(template, Window):
                self._add_window(template, self._strings(sentence, template.source), rows)
            else:
                self._add_conjunction(template, sentence, rows)

    def _add_single(self, template: Single, words: Sequence[str], rows: list[list[str]]) -> None:
        cache, prefix = self._cache[template.name], template.name + "="
        for t, row in enumerate(rows):
            place = t + template.offset
            if 0 <= place < len(rows):
                word = words[place]
                if word not in cache:
                    if len(cache) >= MAX_CACHED:
                        cache.clear()
                    cache[word] = tuple(prefix + v for v in template.source.extract.values(word))
                row += cache[word]
            elif template.source.extract.pieces is Pieces.WHOLE:
                row.append(prefix + (BEFORE if place < 0 else AFTER))

    def _strings(self, sentence: dict[str, list[str]], source: Source) -> list[str]:
        """Values of a source with one value for each word."""
        known, text = self._values.setdefault(source, {}), source.extract.text
        if len(known) >= MAX_CACHED:
            known.clear()
        strings = []
        for word in sentence[source.column]:
            if word not in known:
                known[word] = text(word)
            strings.append(known[word])
        return strings

    def _add_window(self, template: Window, strings: list[str], rows: list[list[str]]) -> None:
        prefix = template.name + "="
        for t, row in enumerate(rows):
            near = strings[max(0, t + template.first) : max(0, t + template.last + 1)]
            row += dict.fromkeys([prefix + v for v in near])

    def _add_conjunction(self, template: Conjunction, sentence: dict[str, list[str]], rows: list[list[str]]) -> None:
        count, shifted = len(rows), []
        for source, offset in template.places:
            strings = self._strings(sentence, source)
            before, after = [BEFORE] * max(0, -offset), [AFTER] * max(0, offset)
            shifted.append((before + strings + after)[max(0, offset) :][:count])
        prefix = template.name + "="
        for row, values in zip(rows, zip(*shifted, strict=True), strict=True):
            row.append(prefix + SEPARATOR.join(values))
