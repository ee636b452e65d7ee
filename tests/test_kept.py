"""Runs that take answers of the last one, against runs that decode everything."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.last_run import last_answers
from concord.flows.runfolder.layout import FEED_FOLDER, STORE
from concord.flows.runfolder.markers import Markers
from concord.flows.runfolder.runfolder import find_done, publish
from concord.schemas.columns import table_from_documents
from concord.schemas.decoded import Status
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.run import ADDITIONS, Reuse, RunKey, RunSettings
from concord.workers.constraints.consistency import LabelConsistency, PairCounts, Scales
from concord.workers.constraints.constraint_set import Separable
from concord.workers.constraints.declared import DeclaredConstraints, JoinedConstraints
from concord.workers.constraints.templates import template
from concord.workers.constraints.templates.features import TokenFeature
from concord.workers.constraints.templates.order import PresencePrecedence
from concord.workers.constraints.templates.runs import AtMostRuns
from concord.workers.constraints.templates.template import Template, TokenTest
from concord.workers.constraints.templates.words import Lexicon
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.corpus.shards import read_digests
from concord.workers.inference.nbest import settled
from concord.workers.labelling import labelled
from concord.workers.labelling.labelled import check_settings
from concord.workers.labelling.last_answers import LastAnswers
from concord.workers.labelling.shard import label_shard
from concord.workers.storage.storage import FolderStorage
from tests.support.made_folders import BIO, QUICK, SCHEMES, WORDS, FlatModel, WordModel, documents

COUNTS = PairCounts(BIO.types, np.array([[9, 1], [1, 7]]), np.array([[5, 1], [2, 4]]), np.array([2, 3]))
COUNT = 24
"""Documents of a corpus."""


class Drifted(WordModel):
    """The model after another day of training: all scores are a little different."""

    def potentials(self, batch: Batch) -> Potentials:
        before = super().potentials(batch)
        shift = np.random.default_rng(1).normal(size=before.unary.shape[1]) * 0.05
        return Potentials(before.unary + shift, before.transition, before.sentence_starts)


def lexicon(weight: float, *words: str, name: str = "outside") -> Lexicon:
    return Lexicon(words=TokenTest(words=words or ("1996",)), labels=("O",), weight=weight, name=name)


def rules(*templates: Template, scales: Scales | None = None) -> Separable:
    declared = DeclaredConstraints(templates).bind(BIO)
    return declared if scales is None else JoinedConstraints((LabelConsistency(COUNTS, scales), declared))


ONE_RUN = AtMostRuns(labels=("B-PER",), limit=1, weight=1.3, name="one run")
ALL = Scales(1.0, 1.0, 1.0)


def key_of(constraints: Separable, model: WordModel, **settings: object) -> RunKey:
    wanted = RunSettings.model_validate({"engine": "certify", "options": QUICK["certify"], "settle": True} | settings)
    return RunKey(settings=check_settings(wanted), model=model.digest, constraints=constraints.digest, code="code")


class Night(NamedTuple):
    """One run into a folder: its documents, constraints, model and settings."""

    documents: Sequence[Document]
    constraints: Separable
    model: WordModel = WordModel(SCHEMES[Scheme.BIO])
    settings: Mapping[str, object] = MappingProxyType({})

    def into(self, out: Path) -> Reuse:
        """Runs, publishes, and says what was taken of the last run in the folder."""
        corpus = out.parent / "corpus.parquet"
        pq.write_table(table_from_documents(self.documents), corpus)
        key = key_of(self.constraints, self.model, **self.settings)
        shards = plan(corpus, shard_bytes=100)
        done = find_done(FolderOutput(out), shards, key)
        reuse = Reuse(kept=int(shards.rows[done.done].sum()))  # whose shards were not even read
        last = last_answers(FolderStorage(out), done, self.constraints.strengths)
        for shard in done.todo():
            reuse += label_shard(
                shard,
                model=self.model,
                constraints=self.constraints,
                key=key,
                store=FolderStorage(out / STORE),
                last=last,
            ).reuse
        publish(FolderOutput(out), find_done(FolderOutput(out), shards, key), rules=self.constraints.strengths)
        return reuse


def content(out: Path) -> dict[str, str]:
    """SHA-256 of all that readers see, but the times, and the feed, which tells what was there before."""
    found = (path for path in sorted((out / ".current").resolve().rglob("*")) if path.is_file())
    return {
        str(path.relative_to((out / ".current").resolve())): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in found
        if path.parent.name not in ("_times", FEED_FOLDER)
    }


def nights(tmp_path: Path, first: Night, second: Night) -> Reuse:
    """What the second night takes of the first; its bytes are those of a run that decodes everything."""
    for name in ("out", "fresh"):
        (tmp_path / name).mkdir()
    assert first.into(tmp_path / "out") == Reuse()
    reuse = second.into(tmp_path / "out")
    second.into(tmp_path / "fresh")
    assert content(tmp_path / "out") == content(tmp_path / "fresh")
    return reuse


def test_of_other_documents_the_new_ones_are_decoded(tmp_path: Path) -> None:
    made = documents(COUNT, 0)
    changed = Document.build("d3", [["Ada", "said", "1996"]], labels=[["O"] * 3])
    added = Document.build("new", [["Byron", "in", "Basel"]], labels=[["O"] * 3])
    other = [*made[:3], changed, *made[4:10], *made[11:], added]
    constraints = rules(lexicon(0.7), ONE_RUN, scales=ALL)
    assert nights(tmp_path, Night(made, constraints), Night(other, constraints)).kept == COUNT - 2
    rows = pq.read_table(tmp_path / "out" / "predictions").column("doc_id").to_pylist()
    assert rows == [document.doc_id for document in other]


@pytest.mark.parametrize("engine", ["gibbs", "viterbi", "window"])
def test_rows_are_kept_by_any_engine(engine: str, tmp_path: Path) -> None:
    made, constraints = documents(COUNT, 1), rules(ONE_RUN)
    chosen = {"engine": engine, "options": QUICK.get(engine, {}), "settle": False}
    night = Night(made, constraints, settings=chosen)
    assert nights(tmp_path, night, night._replace(documents=made[:-1])).kept == COUNT - 1


RULES: dict[str, tuple[Separable, Separable, Callable[[Reuse], bool]]] = {
    "a soft constraint is added": (
        rules(lexicon(0.7), scales=ALL),
        rules(lexicon(0.7), ONE_RUN, scales=ALL),
        lambda r: 0 < r.stood < COUNT,
    ),
    "a hard constraint is added": (
        rules(lexicon(0.7)),
        rules(lexicon(0.7), lexicon(math.inf, "Basel", name="no city")),
        lambda r: 0 < r.stood < COUNT,
    ),
    "one is raised": (rules(lexicon(0.7), ONE_RUN), rules(lexicon(2.0), ONE_RUN), lambda r: r.stood > 0),
    "one becomes hard": (rules(lexicon(0.7), ONE_RUN), rules(lexicon(math.inf), ONE_RUN), lambda r: r.stood > 0),
    "one is lowered": (
        rules(lexicon(2.0, "Basel"), ONE_RUN),
        rules(lexicon(0.4, "Basel"), ONE_RUN),
        lambda r: r.stood > 0 and r.confirmed > 0,
    ),
    "one becomes soft": (rules(lexicon(math.inf), ONE_RUN), rules(lexicon(0.5), ONE_RUN), lambda r: r.stood > 0),
    "one is removed": (rules(lexicon(1.0), ONE_RUN), rules(ONE_RUN), lambda r: r.stood > 0),
    "one has other words": (rules(lexicon(1.0, "1996")), rules(lexicon(1.0, "Ada")), lambda r: r.stood > 0),
    "consistency costs more": (
        rules(ONE_RUN, scales=Scales(0.5, 0.5, 0.5)),
        rules(ONE_RUN, scales=ALL),
        lambda r: r.stood > 0,
    ),
    "consistency costs less": (
        rules(ONE_RUN, scales=ALL),
        rules(ONE_RUN, scales=Scales(1.0, 0.5, 1.0)),
        lambda r: r.confirmed > 0,
    ),
    "a local feature is added": (
        rules(ONE_RUN),
        rules(ONE_RUN, TokenFeature(tokens=TokenTest(words=("in",)), labels=("O",), weight=0.3)),
        lambda r: r.stood == 0 and r.confirmed > 0,
    ),
}


@pytest.mark.parametrize("case", RULES)
def test_under_other_rules_the_answers_are_those_of_a_run_that_decodes_everything(case: str, tmp_path: Path) -> None:
    before, after, expected = RULES[case]
    total = Reuse()
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        made = documents(COUNT, seed)
        total += nights(folder, Night(made, before), Night(made, after))
    assert expected(total), total


def test_what_a_run_from_nothing_has_too_little_work_to_settle_stays_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one difference to a run that decodes everything: there the proof is the engine's, and nothing is settled."""
    before, after = rules(lexicon(0.7), ONE_RUN, scales=ALL), rules(lexicon(0.9), ONE_RUN, scales=ALL)
    kept, found = night_and_fresh(tmp_path, before, after, monkeypatch)
    assert all(found["certified"].to_pylist())
    assert kept.drop_columns(OF_THE_PROOF).equals(found.drop_columns(OF_THE_PROOF))
    pairs = list(zip(*(table.select(OF_THE_PROOF).to_pylist() for table in (kept, found)), strict=True))
    more = [(one, other) for one, other in pairs if one["settled"] != other["settled"]]
    assert all(one == other for one, other in pairs if one["settled"] == other["settled"])
    assert len(more) > 3
    for one, other in more:
        assert (one["settled"], one["status"], one["gap"]) == (True, Status.OPTIMAL, 0.0)
        assert 0.0 <= other["gap"] <= 1e-6


OF_THE_PROOF = ["bound", "gap", "status", "settled"]
"""Columns in which a night may say more than a run that decodes everything."""


def night_and_fresh(
    tmp_path: Path, before: Separable, after: Separable, monkeypatch: pytest.MonkeyPatch
) -> tuple[pa.Table, pa.Table]:
    """The predictions of a night under other rules, and of a run from nothing, both with too little work to settle."""
    made = documents(COUNT, 1)
    for name in ("out", "fresh"):
        (tmp_path / name).mkdir()
    Night(made, before).into(tmp_path / "out")
    monkeypatch.setattr(settled, "LEAST_WORK", 0)
    monkeypatch.setattr(settled, "WORK_A_TOKEN", 0)
    assert Night(made, after).into(tmp_path / "out").stood > 0
    Night(made, after).into(tmp_path / "fresh")
    kept, found = (pq.read_table(tmp_path / name / "predictions") for name in ("out", "fresh"))
    return kept, found


def test_a_document_too_large_for_an_added_rule_is_a_reject_and_its_neighbours_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer was settled, so what the new rule says of it is asked before anything is decoded."""
    large = Document.build("large", [list(WORDS) * 6], labels=[["O"] * 6 * len(WORDS)])
    made = documents(COUNT, 2)
    made.insert(COUNT // 2, large)
    before, added = lexicon(0.7), PresencePrecedence(first=("LOC",), second=("PER",), weight=0.1)
    monkeypatch.setattr(template, "MOST_ENTRIES", 500)
    assert nights(tmp_path, Night(made, rules(before)), Night(made, rules(before, added))).stood > 0
    rejects = pq.read_table(tmp_path / "out" / "_rejects").to_pylist()
    assert [(row["row"], row["doc_id"]) for row in rejects] == [(COUNT // 2, "large")]


def test_of_equals_none_is_taken(tmp_path: Path) -> None:
    made, model = documents(COUNT, 3), FlatModel(SCHEMES[Scheme.BIO], digest="flat")
    first = Night(made, rules(ONE_RUN), model)
    assert nights(tmp_path, first, first._replace(constraints=rules(lexicon(1.0), ONE_RUN))) == Reuse()


def test_under_another_model_answers_are_proven_anew(tmp_path: Path) -> None:
    made, constraints = documents(COUNT, 4), rules(ONE_RUN, scales=ALL)
    after = Drifted(SCHEMES[Scheme.BIO], digest="drifted")
    reuse = nights(tmp_path, Night(made, constraints), Night(made, constraints, after))
    assert reuse.kept == reuse.stood == 0
    assert reuse.confirmed > COUNT // 2


ADDED: dict[str, dict[str, object]] = {
    "certificates": {"certificates": True},
    "certificate_nodes": {"certificates": True, "certificate_nodes": 7},
    "errors_of": {"errors_of": "gibbs"},
    "confidence": {"confidence": "margin"},
    "margin_work": {"confidence": "margin", "margin_work": 1_000},
    "n_best": {"n_best": 3},
    "n_best_work": {"n_best": 3, "n_best_work": 1_000},
}
"""Settings in which a field of `ADDITIONS` says something."""
DECIDING = {"engine", "options", "seed", "work", "seconds", "on_infeasible", "relaxed_weight", "text", "settle"}


def test_each_setting_decides_answers_or_adds_to_them() -> None:
    assert DECIDING | ADDED.keys() == RunSettings.model_fields.keys()
    assert ADDED.keys() == set(ADDITIONS)
    assert not DECIDING & set(ADDITIONS)


@pytest.mark.parametrize("settle", [False, True])
@pytest.mark.parametrize("name", ADDED)
def test_what_is_added_to_answers_is_added_to_those_that_stand(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, settle: bool
) -> None:
    """On, and off again: the bytes of runs that decode everything, and nothing is decoded."""
    nights = [
        Night(documents(4, 2), rules(ONE_RUN, scales=ALL), settings={"settle": settle, **added})
        for added in ({}, ADDED[name], {})
    ]
    fresh = list[dict[str, str]]()
    for number, night in enumerate(nights):
        night.into(tmp_path / f"fresh-{number}")
        fresh.append(content(tmp_path / f"fresh-{number}"))
    nights[0].into(tmp_path / "out")
    monkeypatch.setattr(labelled, "_decoded", refuse)
    for night, own in zip(nights[1:], fresh[1:], strict=True):
        assert night.into(tmp_path / "out").kept == 4
        assert content(tmp_path / "out") == own


def refuse(*_: object) -> None:
    raise AssertionError("a document was decoded")


@pytest.mark.parametrize("settings", [{"settle": False}])
def test_what_is_not_kept_is_made_anew(settings: dict[str, object], tmp_path: Path) -> None:
    made = documents(6, 5)
    first = Night(made, rules(ONE_RUN), settings=settings)
    assert nights(tmp_path, first, first._replace(constraints=rules(lexicon(1.0), ONE_RUN))) == Reuse()


@pytest.mark.parametrize("gone", [False, True])
def test_of_a_damaged_file_of_the_last_run_nothing_is_taken(gone: bool, tmp_path: Path) -> None:
    """Be it that of a shard that is to be done again, or of one of which the corpus has a document less now."""
    made, constraints = documents(COUNT, 6), rules(ONE_RUN)
    out = tmp_path / "out"
    out.mkdir()
    Night(made, constraints).into(out)
    files = sorted((out / "predictions").resolve().glob("*.parquet"))
    ids = [pq.read_table(path)["doc_id"].to_pylist() for path in files]
    first, other = [place for place, own in enumerate(ids) if len(own) > 1][:2]
    files[first].write_bytes(files[first].read_bytes()[:-9] + b"\0" * 9)
    dropped = ids[first if gone else other][0]
    reuse = Night([one for one in made if one.doc_id != dropped], constraints).into(out)
    assert reuse.kept == COUNT - len(set(ids[first]) | {dropped})


def last_night(out: Path, seed: int, *, gone: bool) -> tuple[ShardTable, LastAnswers]:
    """Shards of four documents, and what their run leaves for the next one.

    That has the same shards, none of which is done, or none of them (``gone``).
    """
    out.mkdir()
    night = Night(documents(4, seed), rules(ONE_RUN))
    night.into(out)
    key, shards = key_of(night.constraints, night.model), plan(out.parent / "corpus.parquet", shard_bytes=100)
    now = Markers(shards[:0] if gone else shards, key)
    return shards, last_answers(FolderStorage(out), now, night.constraints.strengths)


@pytest.mark.parametrize("gone", [False, True])
def test_a_row_whose_digest_is_another_documents_is_not_taken(gone: bool, tmp_path: Path) -> None:
    """Two digests may begin alike: eight bytes find the file, and all sixteen have to agree."""
    shards, last = last_night(tmp_path / "out", 7, gone=gone)
    for shard in shards:
        digests = read_digests(shard)
        assert len(digests) == 2
        assert set(last.find(shard.id, digests, BIO)) == {0, 1}
        assert not last.find(shard.id, [digest[:8] + bytes(8) for digest in digests], BIO)


@pytest.mark.parametrize("gone", [False, True])
def test_labels_that_the_model_no_longer_has_are_no_guess(gone: bool, tmp_path: Path) -> None:
    shards, last = last_night(tmp_path / "out", 8, gone=gone)
    assert not last.find(shards[0].id, read_digests(shards[0]), SCHEMES[Scheme.PLAIN])


def test_only_files_of_shards_that_are_gone_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a shard that is done nothing is held, and of one that is to be done again only its file."""
    night = Night(documents(COUNT, 9), rules(ONE_RUN))
    out, storage, key = tmp_path / "out", FolderStorage(tmp_path / "out"), key_of(night.constraints, night.model)
    out.mkdir()
    night.into(out)
    shards = plan(tmp_path / "corpus.parquet", shard_bytes=100)
    opened = list[str]()
    monkeypatch.setattr(FolderStorage, "opened", counting(FolderStorage.opened, opened))

    done = find_done(FolderOutput(out), shards, key)
    assert len(last_answers(storage, done, night.constraints.strengths).files) == 0
    other = key_of(rules(lexicon(0.7), ONE_RUN), night.model)
    again = last_answers(storage, Markers(shards, other), rules(lexicon(0.7), ONE_RUN).strengths)
    assert (len(again.shards.digest), len(again.documents.digest)) == (len(again.files), 0)
    assert len(again.files) == len(shards) > 2
    assert opened == []
    fewer = last_answers(storage, Markers(shards[1:], other), rules(lexicon(0.7), ONE_RUN).strengths)
    assert (len(fewer.shards.digest), len(fewer.documents.digest)) == (len(shards) - 1, shards[0].rows)
    assert [Path(path).name for path in opened] == [min(path.name for path in (out / "predictions").iterdir())]


def counting(open_file: Callable[[FolderStorage, str], BinaryIO], opened: list[str]) -> Any:
    def counted(storage: FolderStorage, name: str) -> BinaryIO:
        opened.append(name)
        return open_file(storage, name)

    return counted
