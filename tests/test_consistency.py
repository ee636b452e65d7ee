"""Label consistency: pair counts, costs as the paper prints them, folding, and the tuning of scales."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from schemas.document import Batch, Document
from schemas.labels import LabelSet
from schemas.potentials import Potentials
from workers.constraints.consistency import LabelConsistency, PairCounts, document_keys
from workers.constraints.constraint_set import build_problem
from workers.learning.saved_consistency import consistency_extra
from workers.learning.tuning import tune_scales
from workers.readers.registry import READERS

LABELS = LabelSet.bio(["PER", "LOC", "ORG", "MISC"])
TRAINING = Path(__file__).parents[2] / "shared/data/conll2003/eng.train"


def counts(exact: list[list[int]], subsequence: list[list[int]]) -> PairCounts:
    return PairCounts(LABELS.types, np.array(exact), np.array(subsequence))


PAPER = counts(
    [[3141, 4, 5, 0], [4, 6436, 188, 3], [5, 188, 2975, 0], [0, 3, 0, 2030]],
    [[1941, 5, 2, 3], [0, 167, 6, 63], [22, 328, 819, 191], [14, 224, 7, 365]],
)
"""Finkel et al. (2005), tables 3 and 4."""


def test_costs_are_those_of_the_papers_example() -> None:
    # Rotor Volgograd once PER and once ORG costs 5/3151 · 5/3169: two tokens, square roots of both.
    assert 2 * PAPER.exact_cost()[0, 2] == pytest.approx(-np.log(5 / 3151 * 5 / 3169))
    # Rotor as ORG inside Rotor Volgograd as PER: the column of ORG, see the module's docstring.
    assert PAPER.subsequence_cost()[0, 2] == pytest.approx(-np.log(2 / 834))
    assert (np.diag(PAPER.exact_cost()) == 0).all()
    assert (PAPER.exact_cost() == PAPER.exact_cost().T).all()
    assert np.isfinite(PAPER.exact_cost()).all()


def club() -> Document:
    return Document.build(
        "club",
        [["Rotor", "Volgograd", "won"], ["Rotor", "Volgograd", "lost"], ["Rotor", "drew"], ["ROTOR", "rose"]],
        labels=[["B-PER", "I-PER", "O"], ["B-ORG", "I-ORG", "O"], ["B-ORG", "O"], ["B-LOC", "O"]],
    )


def test_pairs_are_counted_once_and_in_both_halves() -> None:
    seen = PairCounts.of([club()], LABELS)
    per, loc, org = 0, 1, 2
    assert seen.exact[per, org] == seen.exact[org, per] == 1
    assert seen.exact.sum() == 2
    assert seen.subsequence[per, org] == seen.subsequence[org, org] == 1
    assert seen.subsequence.sum() == 2
    folded = PairCounts.of([club()], LABELS, fold_case=True)
    assert folded.exact[org, loc] == 1
    assert folded.subsequence[per, loc] == folded.subsequence[org, loc] == 1
    twice = seen + seen
    assert (twice.exact == 2 * seen.exact).all()
    with pytest.raises(ValueError, match="do not add up"):
        seen + folded


def test_the_score_of_the_papers_example() -> None:
    document = club()
    problem = build_problem(
        document,
        Potentials(np.zeros((10, 9)), np.zeros((9, 9)), document.sentence_starts),
        LABELS,
        LabelConsistency(PAPER),
    )
    assert document.labels is not None
    labels = LABELS.encode(document.labels.strings())
    # As the paper counts it, and ORG in ORG costs nothing. ROTOR in capitals is another word here.
    assert problem.score(labels).penalty == pytest.approx(-np.log(5 / 3151 * 5 / 3169 * 2 / 834))
    halved = LabelConsistency(PAPER, 0.5, 0.0).with_costs(problem)
    assert halved.score(labels).penalty == pytest.approx(-0.5 * np.log(5 / 3151 * 5 / 3169))


def test_keys_fold_case_only_when_asked() -> None:
    document = club()
    as_written, folded = document_keys(document), document_keys(document, fold_case=True)
    assert as_written[0, 0] == as_written[3, 0] == as_written[6, 0] != -1
    assert as_written[8, 0] == -1
    assert folded[8, 0] == folded[0, 0]


def test_digests_tell_what_decides_the_costs() -> None:
    digests = {LabelConsistency(PAPER, *scales).digest for scales in ((1.0, 1.0), (0.5, 1.0), (1.0, 0.5))}
    folded = PairCounts(PAPER.types, PAPER.exact, PAPER.subsequence, fold_case=True)
    assert len(digests | {LabelConsistency(folded).digest}) == 4
    assert LabelConsistency(PAPER).digest == LabelConsistency(PAPER).digest


def test_other_types_are_refused() -> None:
    with pytest.raises(ValueError, match="counted for types"):
        LabelConsistency(PAPER).ground(Batch.of([club()]), LabelSet.bio(["PER"]))


@dataclass(frozen=True)
class Stubborn:
    """A model that is sure of every mention but the last of a document, which it gets narrowly wrong."""

    labels: LabelSet = LABELS
    digest: str = "stubborn"

    def potentials(self, batch: Batch) -> Potentials:
        assert batch.labels is not None
        gold = self.labels.encode(batch.labels.strings())
        unary = np.zeros((batch.token_count, len(self.labels)))
        unary[np.arange(len(gold)), gold] = 5.0
        mentions = np.flatnonzero(gold)
        for end in batch.doc_starts[1:]:
            last = mentions[mentions < end][-1]
            unary[last] = 0.0
            unary[last, self.labels.index["B-LOC"]] = 1.0
            unary[last, gold[last]] = 0.5
        return Potentials(unary, np.zeros((9, 9)), batch.sentence_starts)


def person(number: int) -> Document:
    name = f"Name{number}"
    return Document.build(f"p{number}", [[name, "spoke"], [name, "left"]], labels=[["B-PER", "O"]] * 2)


def test_tuning_turns_on_what_helps() -> None:
    documents = [person(i) for i in range(20)]
    seen: list[float] = []
    best, trials = tune_scales(
        documents,
        Stubborn(),
        [PairCounts.of(documents, LABELS)],
        scales=(0.0, 0.5),
        progress=lambda trial: seen.append(trial.f1),
    )
    assert best.exact_scale == 0.5
    assert best.subsequence_scale == 0.0
    assert len(trials) == len(seen) == 4
    by_scale = {(t.exact, t.subsequence): t.f1 for t in trials}
    assert by_scale[0.0, 0.0] == pytest.approx(0.5)
    assert by_scale[0.5, 0.0] == pytest.approx(1.0)


def test_tuning_needs_gold() -> None:
    bare = Document.build("bare", [["a"]])
    with pytest.raises(ValueError, match="no gold labels"):
        tune_scales([bare], Stubborn(), [PAPER])


def test_what_is_saved_is_plain_json() -> None:
    saved = consistency_extra(LabelConsistency(PAPER, 0.25, 0.5))
    assert saved["exact_scale"] == 0.25
    assert saved["fold_case"] is False
    assert saved["subsequence"][2] == [22, 328, 819, 191]


def test_counts_on_conll_are_close_to_the_papers() -> None:
    if not TRAINING.exists():
        pytest.skip(f"no CoNLL-2003 training part at {TRAINING}")
    reader = READERS["conll"]
    documents = [d for d in reader.read(str(TRAINING), reader.settings()) if isinstance(d, Document)]
    seen = PairCounts.of(documents, LABELS)
    # The paper counted 945 documents, the file has 946: every cell is within a twentieth, or within 25.
    assert (np.abs(seen.exact - PAPER.exact) <= np.maximum(25, PAPER.exact / 20)).all()
    assert (np.abs(seen.subsequence - PAPER.subsequence) <= np.maximum(25, PAPER.subsequence / 20)).all()
