"""Agreement over the corpus: a prior for each token from the labels that its word gets in other documents.

Krishnan & Manning (2006) let a second model see a first model's labels of a word over the whole corpus. Here a first
pass counts the labels that Viterbi gives to each word, and the counts n become local scores. A token of document d
whose word is w gets, for a label of type c (or outside all spans),

    s · log( (n₋d(w, c) + a · π(c)) / (n₋d(w) + a) / π(c) ) nats,

    n₋d   counts of the first pass without those of document d itself
    π(c)  share of c among the tokens of the corpus
    s     scale
    a     number of tokens that π stands for

A word that no other document has changes nothing. An answer thus depends on the corpus that was counted, which is why
the prior's digest covers the counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from concord.schemas.arrays import Floats, Ints
from concord.schemas.document import TOKENS, Batch
from concord.schemas.errors import InputError
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.secrets import place_of
from concord.workers.inference.core.chain import viterbi
from concord.workers.models.settings import AgreementSettings
from concord.workers.storage.files import write_whole
from concord.workers.storage.tables import TableFileError, read_table

SUFFIX = ".parquet"
"""Suffix of a file of counts; a file of declared constraints has another one."""
WORD_COLUMN, OUTSIDE_COLUMN = "word", "outside"
ABOUT = b"concord.agreement"
"""Key of the file's metadata."""


class AgreementFileError(InputError):
    """A file of counts is missing or damaged, or was made for other labels."""


class About(BaseModel):
    """Metadata of a file of counts: digest of the model that labelled, its span types, and strength of the prior."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    types: tuple[str, ...]
    settings: AgreementSettings


@dataclass(frozen=True, eq=False)
class AnswerCounts:
    """Counts of words and the types that Viterbi gave them; counts of parts of a corpus add up (`merge`).

    - ``documents``, ``rejected``: numbers of documents that were counted, and of rejects.
    - ``words`` (V,): the vocabulary, sorted.
    - ``counts`` (V, T + 1): tokens of each word by type; column 0 counts tokens outside all spans.
    """

    documents: int
    rejected: int
    words: tuple[str, ...]
    counts: NDArray[np.int64]

    @classmethod
    def none(cls, labels: LabelSet, *, rejected: int = 0) -> AnswerCounts:
        """Counts of no documents, only of rejects."""
        return cls(0, rejected, (), np.zeros((0, len(labels.types) + 1), np.int64))

    @classmethod
    def of(cls, batch: Batch, potentials: Potentials, labels: LabelSet, *, rejected: int = 0) -> AnswerCounts:
        """Counts of a batch by its Viterbi labels; ``potentials`` are the model's own, with no prior added."""
        column, kinds = batch.columns[TOKENS], len(labels.types) + 1
        counts = np.zeros((len(column.values), kinds), np.int64)
        np.add.at(counts, (column.codes, _kinds(potentials, labels)), 1)
        return cls._sorted(len(batch), rejected, column.values, counts)

    @classmethod
    def merge(cls, parts: Iterable[AnswerCounts]) -> AnswerCounts:
        """The counts of all parts together."""
        given = list(parts)
        width = max((part.counts.shape[1] for part in given), default=0)
        words = [word for part in given for word in part.words]
        counts = np.concatenate([np.zeros((0, width), np.int64), *(p.counts for p in given if len(p.words))])
        return cls._sorted(sum(p.documents for p in given), sum(p.rejected for p in given), words, counts)

    @classmethod
    def _sorted(cls, documents: int, rejected: int, words: Iterable[str], counts: NDArray[np.int64]) -> AnswerCounts:
        """Sums rows of equal words, sorts by word and drops words without counts."""
        given = list(words)
        names = sorted(set(given))
        place = {word: i for i, word in enumerate(names)}
        total = np.zeros((len(names), counts.shape[1]), np.int64)
        np.add.at(total, np.array([place[word] for word in given], np.int64), counts)
        seen = np.flatnonzero(total.any(axis=1))
        return cls(documents, rejected, tuple(names[i] for i in seen.tolist()), total[seen])


def _kinds(potentials: Potentials, labels: LabelSet) -> Ints:
    """(N,) column of `AnswerCounts.counts` for each token's Viterbi label: 0 outside all spans, otherwise 1 + type."""
    found: Ints = labels.type_of[viterbi(potentials.legal(labels))].astype(np.int64) + 1
    return found


@dataclass(frozen=True, eq=False)
class CorpusAgreement:
    """The prior that ``counts`` give, of the strength that ``about`` states; a `LabelPrior`."""

    counts: AnswerCounts
    about: About

    title: str = "agreement over the corpus"
    columns: tuple[str, ...] = (TOKENS,)

    @cached_property
    def digest(self) -> str:
        """Hex digest of counts, types and strength of the prior, without the model's, which is in a run's key."""
        state = hashlib.sha256(repr((self.about.types, self.about.settings, self.counts.words)).encode())
        state.update(self.counts.counts.tobytes())
        return state.hexdigest()

    def adjust(self, batch: Batch, potentials: Potentials, labels: LabelSet) -> Potentials:
        """Potentials with the prior added. The given ones must be the model's own, as they were in the first pass."""
        if self.about.settings.scale == 0.0 or not len(potentials.unary):
            return potentials
        prior = self._prior(batch, potentials, labels)
        return replace(potentials, unary=potentials.unary + prior[:, labels.type_of + 1])

    def _prior(self, batch: Batch, potentials: Potentials, labels: LabelSet) -> Floats:
        """(N, T + 1) the prior of each type at each token, in nats; column 0 is outside all spans."""
        chosen, share = self.about.settings, self._share
        there = self._rows(batch) - _of_document(batch, _kinds(potentials, labels), len(share))
        # Below 0 where the document was not among those counted, or was counted with another model.
        there = np.maximum(there, 0)
        smooth = (there + chosen.tokens * share) / (there.sum(axis=1, keepdims=True) + chosen.tokens)
        prior: Floats = chosen.scale * np.log(smooth / share)
        return prior

    def _rows(self, batch: Batch) -> NDArray[np.int64]:
        """(N, T + 1) corpus counts of each token's word, zeros for a word that was not counted."""
        column = batch.columns[TOKENS]
        place = np.array([self._places.get(word, len(self._places)) for word in column.values], np.int64)
        table = np.concatenate([self.counts.counts, np.zeros((1, len(self._share)), np.int64)])
        found: NDArray[np.int64] = table[place[column.codes]]
        return found

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.counts.words)}

    @cached_property
    def _share(self) -> Floats:
        """(T + 1,) share π of each type among all tokens, smoothed by one token each so that none is 0."""
        total = self.counts.counts.sum(axis=0) + 1.0
        share: Floats = total / total.sum()
        return share


def _of_document(batch: Batch, kinds: Ints, size: int) -> NDArray[np.int64]:
    """(N, size) counts by kind of each token's word in the token's own document."""
    column = batch.columns[TOKENS]
    document = np.repeat(np.arange(len(batch)), np.diff(batch.doc_starts))
    _, word = np.unique(document * len(column.values) + column.codes, return_inverse=True)
    own = np.zeros((int(word.max()) + 1, size), np.int64)
    np.add.at(own, (word, kinds), 1)
    found: NDArray[np.int64] = own[word]
    return found


def write_agreement(path: Path, counts: AnswerCounts, about: About) -> None:
    """Writes the counts in one step; equal counts give equal bytes. Raises `OutputError`."""
    columns = {WORD_COLUMN: pa.array(counts.words, pa.string())}
    columns |= {name: pa.array(counts.counts[:, k]) for k, name in enumerate(_columns(about))}
    sink = pa.BufferOutputStream()
    table = pa.table(columns).replace_schema_metadata({ABOUT: about.model_dump_json()})
    pq.write_table(table, sink, compression="zstd")
    write_whole(path, sink.getvalue().to_pybytes())


def read_agreement(path: str | Path, labels: LabelSet) -> CorpusAgreement:
    """The prior of a file of counts, at a path or a URI, for a model with these labels. Raises `AgreementFileError`."""
    place = place_of(str(path))
    try:
        table = read_table(path)
        about = About.model_validate_json((table.schema.metadata or {}).get(ABOUT, b""))
    except (FileNotFoundError, IsADirectoryError):
        raise AgreementFileError(f"{place}: there is no such file; make one with `concord corpus agreement`") from None
    except TableFileError as error:
        raise AgreementFileError(f"{place}: {error}") from error
    except ValidationError as error:
        raise AgreementFileError(
            f"{place}: no file of `concord corpus agreement` ({error.errors()[0]['msg']})"
        ) from error
    if about.types != labels.types:
        raise AgreementFileError(
            f"{place}: counted with types {', '.join(about.types)}, the model has {', '.join(labels.types)}; "
            "count again with this model"
        )
    layout = pa.schema([(WORD_COLUMN, pa.string()), *((name, pa.int64()) for name in _columns(about))])
    if not table.schema.equals(layout) or any(column.null_count for column in table.columns):
        raise AgreementFileError(f"{place}: its columns are not {', '.join(layout.names)}; count again")
    words = tuple(table[WORD_COLUMN].to_pylist())
    counts = np.stack([table[name].to_numpy() for name in _columns(about)], axis=1)
    if len(set(words)) != len(words) or (counts < 0).any():
        raise AgreementFileError(f"{place}: a word is there twice, or a count is below 0; count again")
    return CorpusAgreement(AnswerCounts(0, 0, words, counts), about)


def _columns(about: About) -> tuple[str, ...]:
    """Names of the file's count columns: outside, then one for each type."""
    return (OUTSIDE_COLUMN, *(f"type {name}" for name in about.types))
