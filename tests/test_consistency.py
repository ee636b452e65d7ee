"""Label consistency: pair counts, costs as the paper prints them, folding, and the tuning of scales."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from concord.flows.training.tuning import no_gain_line
from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.workers.constraints.consistency import LabelConsistency, PairCounts, Scales, document_keys
from concord.workers.constraints.constraint_set import build_problem
from concord.workers.corpus.readers.registry import READERS
from concord.workers.learning.weights.consistency_scales import ScaleTrial, tune_scales
from concord.workers.models.saved_consistency import consistency_extra

LABELS = LabelSet.bio(["PER", "LOC", "ORG", "MISC"])
TRAINING = Path(__file__).parents[2] / "shared/data/conll2003/eng.train"


PAPER = PairCounts(
    LABELS.types,
    exact=np.array([[3141, 4, 5, 0], [4, 6436, 188, 3], [5, 188, 2975, 0], [0, 3, 0, 2030]]),
    subsequence=np.array([[1941, 5, 2, 3], [0, 167, 6, 63], [22, 328, 819, 191], [14, 224, 7, 365]]),
    unlabelled=np.array([0, 6, 3, 2]),
)
"""Finkel et al. (2005), tables 3 and 4; what stands unlabelled the paper does not count."""


def test_costs_are_those_of_the_papers_example() -> None:
    # Rotor Volgograd once PER and once ORG costs 5/3151 · 5/3169: two tokens, square roots of both.
    assert 2 * PAPER.exact_cost()[0, 2] == pytest.approx(-np.log(5 / 3151 * 5 / 3169))
    # Rotor as ORG inside Rotor Volgograd as PER: the column of ORG, see the module's docstring.
    assert PAPER.subsequence_cost()[0, 2] == pytest.approx(-np.log(2 / 834))
    assert (np.diag(PAPER.exact_cost()) == 0).all()
    assert (PAPER.exact_cost() == PAPER.exact_cost().T).all()
    assert np.isfinite(PAPER.exact_cost()).all()


def test_unlabelled_places_are_one_more_column_of_the_exact_table() -> None:
    assert PAPER.unlabelled_cost().shape == (4, 1)
    assert PAPER.unlabelled_cost()[2, 0] == pytest.approx(-np.log(3 / (5 + 188 + 2975 + 1 + 3)))
    assert PAPER.unlabelled_cost()[0, 0] == pytest.approx(-np.log(1 / (3141 + 4 + 5 + 1 + 1)))


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
    assert seen.unlabelled.sum() == 0
    overlooked = Document.build(
        "overlooked", [["Rotor", "won"], ["Rotor", "lost"]], labels=[["B-ORG", "O"], ["O", "O"]]
    )
    assert PairCounts.of([overlooked], LABELS).unlabelled.tolist() == [0, 0, 1, 0]
    twice = seen + seen
    assert (twice.exact == 2 * seen.exact).all()
    with pytest.raises(ValueError, match="do not add up"):
        seen + folded


def test_labels_without_a_type_have_no_pairs() -> None:
    seen = PairCounts.of([Document.build("d", [["a", "a"]], labels=[["O", "O"]])], LabelSet.bio([]))
    assert (seen.exact.shape, seen.subsequence.shape, seen.unlabelled.shape) == ((0, 0), (0, 0), (0,))


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
    halved = LabelConsistency(PAPER, Scales(0.5, 0.0, 0.0)).with_costs(problem)
    assert halved.score(labels).penalty == pytest.approx(-0.5 * np.log(5 / 3151 * 5 / 3169))
    # Without its last label ROTOR is still another word; without the third, Rotor is a name left out twice.
    labels[6] = LABELS.index["O"]
    left_out = LabelConsistency(PAPER, Scales(0.0, 0.0, 1.0)).with_costs(problem)
    assert left_out.score(labels).penalty == 0.0
    labels[[4, 6]] = LABELS.index["O"], LABELS.index["B-PER"]
    assert left_out.score(labels).penalty == 0.0
    labels[3] = LABELS.index["O"]
    one_token = PAPER.unlabelled_cost()[:, 0]
    assert left_out.score(labels).penalty == pytest.approx(2 * one_token[0] + one_token[0])


def test_keys_fold_case_only_when_asked() -> None:
    document = club()
    as_written, folded = document_keys(document), document_keys(document, fold_case=True)
    assert as_written[0, 0] == as_written[3, 0] == as_written[6, 0] != -1
    assert as_written[8, 0] == -1
    assert folded[8, 0] == folded[0, 0]


def test_digests_tell_what_decides_the_costs() -> None:
    scales = Scales(), Scales(exact=0.5), Scales(subsequence=0.5), Scales(unlabelled=0.5)
    digests = {LabelConsistency(PAPER, chosen).digest for chosen in scales}
    folded, recounted = replace(PAPER, fold_case=True), replace(PAPER, unlabelled=PAPER.unlabelled + 1)
    assert len(digests | {LabelConsistency(folded).digest, LabelConsistency(recounted).digest}) == 6
    assert LabelConsistency(PAPER).digest == LabelConsistency(PAPER).digest


def test_other_types_are_refused() -> None:
    with pytest.raises(ValueError, match="counted for types"):
        LabelConsistency(PAPER).ground(Batch.of([club()]), LabelSet.bio(["PER"]))


@dataclass(frozen=True)
class Stubborn:
    """A model that is sure of every mention but the last of a document, which it gets narrowly wrong."""

    labels: LabelSet = LABELS
    digest: str = "stubborn"
    columns: tuple[str, ...] = ()

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
    seen: list[ScaleTrial] = []
    best, trials = tune_scales(
        documents,
        Stubborn(),
        [PairCounts.of(documents, LABELS)],
        scales=(0.0, 0.5),
        progress=seen.append,
    )
    assert best.scales == (0.5, 0.0, 0.0)
    assert len(trials) == len(seen) < 8
    f1 = {tuple(trial.scales): trial.f1 for trial in trials}
    assert f1[0.0, 0.0, 0.0] == pytest.approx(0.5)
    assert f1[0.5, 0.0, 0.0] == pytest.approx(1.0)


def test_tuning_chooses_how_words_are_compared() -> None:
    documents = [person(i) for i in range(5)]
    counted = [PairCounts.of(documents, LABELS, fold_case=fold) for fold in (True, False)]
    shouted = [Document.build("p", [["Name", "spoke"], ["NAME", "left"]], labels=[["B-PER", "O"]] * 2)]
    best, trials = tune_scales(shouted, Stubborn(), counted[::-1], scales=(0.0, 0.5))
    assert best.counts.fold_case
    assert {trial.fold_case for trial in trials} == {False, True}


def test_tuning_needs_gold() -> None:
    bare = Document.build("bare", [["a"]])
    with pytest.raises(ValueError, match="no gold labels"):
        tune_scales([bare], Stubborn(), [PAPER])


def test_what_is_saved_is_plain_json() -> None:
    saved = consistency_extra(LabelConsistency(PAPER, Scales(0.25, 0.5, 1.0)))
    assert saved["exact_scale"] == 0.25
    assert saved["fold_case"] is False
    assert saved["unlabelled"] == [0, 6, 3, 2]
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


@pytest.mark.parametrize(
    ("trials", "line"),
    [
        ([(0.0, 0.0, 0.0, 0.8), (0.5, 0.5, 0.5, 0.8)], None),
        ([(0.0, 0.0, 0.0, 0.8), (0.5, 0.5, 0.5, 0.9), (0.5, 0.5, 0.25, 0.7)], None),
        (
            [(0.0, 0.0, 0.0, 0.8), (0.5, 0.5, 0.5, 0.75), (0.0, 0.0, 0.5, 0.9)],
            "label consistency gains nothing so far: entity F1 80.00% without it, 75.00% at best with it",
        ),
    ],
)
def test_training_says_after_the_first_scales_that_nothing_is_gained(
    trials: list[tuple[float, float, float, float]], line: str | None
) -> None:
    said = no_gain_line([ScaleTrial(False, Scales(*scales), f1) for *scales, f1 in trials])
    assert (said or "").partition(";")[0] == (line or "")
