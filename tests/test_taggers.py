"""The trainer of layers alone: no gold, one tagger or several, copies, no answers, any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import concord.flows.training.train_model
from concord.flows.screen.terminal import show_report
from concord.flows.training.train_model import TrainJob, check_search, train_model
from concord.schemas.document import Batch, Column, Document
from concord.schemas.errors import CorpusError, TrainingError
from concord.schemas.labels import LabelSet
from concord.schemas.layers import NO_ANSWER, layer_columns, types_under
from concord.schemas.learning_requests import TrainingEffort
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.learning.trainers import taggers
from concord.workers.learning.trainers.taggers import answers_of, layers_of
from concord.workers.models.crf import CrfModel
from concord.workers.models.loaders import load_model
from concord.workers.models.model import viterbi_labels
from concord.workers.models.saved_consistency import saved_consistency
from concord.workers.models.settings import SgdSettings, TaggersSettings
from concord.workers.sweeps.documents import Documents, digest_of
from concord.workers.sweeps.training import TrainingJob, TrainingPart, train_into
from tests.support.made_corpora import corpus
from tests.support.made_tracking import untracked

DOCUMENTS = corpus(3, 60)
Labelling = list[list[str]]


def gold(documents: Sequence[Document]) -> Labelling:
    return [[] if document.labels is None else document.labels.strings() for document in documents]


def missing(documents: Sequence[Document], every: int, first: int = 0) -> Labelling:
    """Gold labels without each so-many-th name."""
    number, found = first, list[list[str]]()
    for labels in gold(documents):
        row, dropped = list[str](), False
        for label in labels:
            if label[0] == "B":
                number += 1
                dropped = number % every == 0
            row.append("O" if dropped and label != "O" else label)
        found.append(row)
    return found


def layered(documents: Sequence[Document], **layers: Labelling) -> list[Document]:
    """The documents with layers, without gold labels."""
    found = []
    for i, document in enumerate(documents):
        columns = dict(document.columns)
        for name, labels in layers.items():
            own, grade, _ = layer_columns(name)
            columns |= {own: Column.encode(labels[i]), grade: Column.encode(["-"] * len(document))}
        found.append(replace(document, columns=columns, labels=None))
    return found


def learned(out: Path, documents: Sequence[Document], **options: Any) -> CrfModel:
    return taggers.train(documents, settings=TaggersSettings(**options), out=out)


def answers(model: CrfModel, documents: Sequence[Document]) -> list[str]:
    return list(model.labels.decode(viterbi_labels(model, Batch.of(list(documents)))))


def right(found: Sequence[str], documents: Sequence[Document]) -> int:
    wanted = [label for labels in gold(documents) for label in labels]
    return sum(a == b for a, b in zip(found, wanted, strict=True))


def test_what_one_tagger_misses_its_words_say(tmp_path: Path) -> None:
    tagger = missing(DOCUMENTS, 4)
    documents = layered(DOCUMENTS, ner=tagger)
    found = answers(learned(tmp_path / "m", documents), documents)
    assert right(found, DOCUMENTS) > right([label for labels in tagger for label in labels], DOCUMENTS) + 20


def test_without_words_one_tagger_is_left_as_it_is(tmp_path: Path) -> None:
    tagger = missing(DOCUMENTS, 4)
    documents = layered(DOCUMENTS, ner=tagger)
    found = answers(learned(tmp_path / "m", documents, words=False), documents)
    assert found == [label for labels in tagger for label in labels]


def test_several_taggers_are_better_than_the_best(tmp_path: Path) -> None:
    parts = {name: missing(DOCUMENTS, 3, first) for first, name in enumerate("abc")}
    documents = layered(DOCUMENTS, **parts)
    model = learned(tmp_path / "m", documents, words=False)
    best = max(right([label for labels in part for label in labels], DOCUMENTS) for part in parts.values())
    assert right(answers(model, documents), DOCUMENTS) > best + 20
    figures = model.manifest.training["taggers"]
    assert [figures[name]["weight"] for name in "abc"] == [1.0, 1.0, 1.0]
    for tagger in figures.values():
        for chances in tagger["types"].values():
            assert sum(chances.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("words", [True, False])
def test_a_copy_of_a_tagger_changes_no_answer(words: bool, tmp_path: Path) -> None:
    one, other = missing(DOCUMENTS, 3), missing(DOCUMENTS, 4, 1)
    documents = layered(DOCUMENTS, a=one, b=other, copy=one)
    for names, more in ((("a",), ("a", "copy")), (("a", "b"), ("a", "b", "copy"))):
        pair = [learned(tmp_path / "+".join(part), documents, layers=part, words=words) for part in (names, more)]
        assert answers(pair[0], documents) == answers(pair[1], documents)
        weights = [tagger["weight"] for tagger in pair[1].manifest.training["taggers"].values()]
        assert sum(weights) == pytest.approx(len(names))
    assert pair[1].manifest.training["equal"]["a,copy"] == 1.0


def test_the_order_of_documents_changes_no_byte(tmp_path: Path) -> None:
    documents = layered(DOCUMENTS, a=missing(DOCUMENTS, 3), b=missing(DOCUMENTS, 4, 1))
    shuffled = [documents[i] for i in np.random.default_rng(0).permutation(len(documents)).tolist()]
    for folder, part in (("one", documents), ("other", shuffled)):
        learned(tmp_path / folder, part)
    for path in sorted((tmp_path / "one").iterdir()):
        assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes(), path.name


def test_gold_labels_are_never_read(tmp_path: Path) -> None:
    documents = layered(DOCUMENTS, a=missing(DOCUMENTS, 3))
    with_gold = [replace(new, labels=old.labels) for new, old in zip(documents, DOCUMENTS, strict=True)]
    wrong = [replace(new, labels=Column.encode(["B-NO"] * len(new))) for new in documents]
    digests = {learned(tmp_path / str(i), part).digest for i, part in enumerate((documents, with_gold, wrong))}
    assert len(digests) == 1


def test_documents_without_an_answer_are_labelled_by_their_words(tmp_path: Path) -> None:
    tagger = gold(DOCUMENTS)
    for i in range(0, len(DOCUMENTS), 3):
        tagger[i] = [NO_ANSWER] * len(DOCUMENTS[i])
    documents = layered(DOCUMENTS, ner=tagger)
    model = learned(tmp_path / "m", documents)
    assert NO_ANSWER not in model.labels.types
    silent, truth = documents[::3], DOCUMENTS[::3]
    outside = sum(labels.count("O") for labels in gold(truth))
    assert right(answers(model, silent), truth) > outside + 10
    # The other tagger is asked of all: nobody is silent.
    both = layered(DOCUMENTS, ner=tagger, b=missing(DOCUMENTS, 3))
    assert right(answers(learned(tmp_path / "b", both, words=False), both), DOCUMENTS) > outside


def test_a_label_above_others_is_evidence_of_all_of_them(tmp_path: Path) -> None:
    above = [[label if label == "O" else f"{label[:2]}LOC|ORG|PER" for label in labels] for labels in gold(DOCUMENTS)]
    documents = layered(DOCUMENTS, types=missing(DOCUMENTS, 4), any=above)
    model = learned(tmp_path / "m", documents, words=False)
    assert model.labels == LabelSet.bio(["LOC", "ORG", "PER"])
    found, typed = answers(model, documents), [label for labels in missing(DOCUMENTS, 4) for label in labels]
    assert all(mine == theirs for mine, theirs in zip(found, typed, strict=True) if theirs != "O")
    lost = len(found) - right(typed, DOCUMENTS)
    named = [label[0] for labels in gold(DOCUMENTS) for label in labels]
    assert sum(label[0] != wanted for label, wanted in zip(found, named, strict=True)) < lost / 3
    assert types_under("LOC|ORG") == ("LOC", "ORG")


def test_a_type_that_a_tagger_does_not_know_is_not_denied_by_it(tmp_path: Path) -> None:
    people = [[label if label.endswith("PER") else "O" for label in labels] for labels in gold(DOCUMENTS)]
    documents = layered(DOCUMENTS, all=gold(DOCUMENTS), people=people)
    model = learned(tmp_path / "m", documents, words=False)
    assert right(answers(model, documents), DOCUMENTS) == sum(map(len, gold(DOCUMENTS)))
    answered = answers_of(documents, ("all", "people"))
    assert answered.witnesses[1].labels == ("PER",)


def test_neither_a_silent_tagger_nor_the_order_of_layers_changes_an_answer(tmp_path: Path) -> None:
    silent = [["O"] * len(document) for document in DOCUMENTS]
    documents = layered(DOCUMENTS, a=missing(DOCUMENTS, 3), b=missing(DOCUMENTS, 4, 1), silent=silent)
    alone = answers(learned(tmp_path / "alone", documents, layers=("a", "b")), documents)
    shares = []
    for names in permutations(("a", "b", "silent")):
        model = learned(tmp_path / ",".join(names), documents, layers=names)
        assert answers(model, documents) == alone, names
        found = model.manifest.training["coinciding_errors"]
        shares.append({frozenset(pair.split(",")): share for pair, share in found.items()})
    assert all(own == pytest.approx(shares[0]) for own in shares)


def test_what_cannot_be_learned_is_one_line(tmp_path: Path) -> None:
    silent = layered(DOCUMENTS[:3], a=[["O"] * len(d) for d in DOCUMENTS[:3]])
    with pytest.raises(TrainingError, match="no layer marks anything, among a"):
        learned(tmp_path / "m", silent)
    with pytest.raises(TrainingError, match="no layer to learn from"):
        learned(tmp_path / "m", DOCUMENTS[:3])
    with pytest.raises(TrainingError, match="no layer 'b'; there are a"):
        learned(tmp_path / "m", silent, layers=("b",))
    with pytest.raises(ValueError, match="start_from"):
        TaggersSettings(start_from="x")
    assert layers_of(silent) == ("a",)


def test_the_command_needs_no_gold_and_says_how_far_to_trust_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    documents = layered(DOCUMENTS, a=missing(DOCUMENTS, 3), b=missing(DOCUMENTS, 4, 1))
    write_corpus(documents, tmp_path / "corpus", source="made up")
    request = TrainJob(
        corpus=str(tmp_path / "corpus"), out=str(tmp_path / "model"), trainer="taggers", settings=TaggersSettings()
    )
    report = train_model(request)
    show_report(report)
    told = capsys.readouterr().out
    assert "no gold was read: the taggers say the same of" in told
    assert "a: LOC " in told
    assert report.taggers is not None
    assert report.taggers.witnesses == 2.0
    assert 0.4 < report.taggers.equal["a,b"] < 0.9
    assert load_model(tmp_path / "model").digest == report.model_digest
    assert saved_consistency(tmp_path / "model") is not None
    with pytest.raises(CorpusError, match="--trainer taggers, which learns from layers without gold"):
        train_model(request.model_copy(update={"trainer": "sgd", "settings": SgdSettings(layers=("a",))}))
    with pytest.raises(TrainingError, match="reads no gold labels that could judge"):
        check_search(request.model_copy(update={"effort": TrainingEffort.BEST}))


def test_a_sweep_reads_no_gold_for_it_either(tmp_path: Path) -> None:
    documents = layered(DOCUMENTS, a=missing(DOCUMENTS, 3))
    with_gold = [replace(new, labels=Column.encode(["B-NO"] * len(new))) for new in documents]
    found = []
    for name, part in (("none", documents), ("wrong", with_gold)):
        write_corpus(part, tmp_path / name, source="made up")
        place = Documents(str(tmp_path / name), digest_of(plan(str(tmp_path / name))))
        learn = TrainingJob("k", "m", TrainingPart(place, None, None), "taggers", TaggersSettings(), {}, True)
        train_into(learn, tmp_path / f"model-{name}")
        found.append(saved_consistency(tmp_path / f"model-{name}"))
    assert found[0] is not None
    assert found[1] is not None
    assert np.array_equal(found[0].counts.exact, found[1].counts.exact)
